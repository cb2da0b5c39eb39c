"""Known faults of exporters and their repairs. A repaired export is a candidate like any other: it is compared, not trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.convert import number_types
from sardonyx.model import Model

Description = Mapping[str, Any]


@dataclass(frozen=True)
class Repair:
    """One entry of the table: a cheap test, and an edit in place of a copy of the model."""

    name: str
    applies: Callable[[Model, Description], bool]
    apply: Callable[[Model, Description], None]


def candidates(model: Model, description: Description) -> Iterator[tuple[str, Model]]:
    """Repaired copies of a model that came out wrong, each with the name of its repair; pairs of repairs come last.

    `description` is what the source says about itself, and `dynamic`, the dimensions that must be open.
    """
    fitting = [repair for repair in REPAIRS if repair.applies(model, description)]
    for repair in fitting:
        yield repair.name, _repaired(model, description, repair)
    for index, first in enumerate(fitting):
        for second in fitting[index + 1 :]:
            once = _repaired(model, description, first)
            if second.applies(once, description):
                yield f"{first.name}, {second.name}", _repaired(once, description, second)


def _repaired(model: Model, description: Description, repair: Repair) -> Model:
    copy = Model(model.ir.clone())
    repair.apply(copy, description)
    return Model(copy.ir)


def _lists_of_maps(model: Model) -> list[ir.Node]:
    return [node for node in model.ir.graph if node.op_type == "ZipMap"]


def _drop_maps(model: Model, _: Description) -> None:
    """Replaces an output that is a list of maps by the tensor that ZipMap packed into it."""
    graph = model.ir.graph
    for node in _lists_of_maps(model):
        packed, tensor = node.outputs[0], node.inputs[0]
        assert tensor is not None, "ZipMap has one input"
        _take_over(graph, packed, tensor)
        graph.remove(node, safe=True)


def _fixed_axes(model: Model, description: Description) -> list[tuple[ir.Value, int, str]]:
    """The (input, axis, wanted name) of dimensions that must be open and are not."""
    inputs = {value.name: value for value in model.ir.graph.inputs}
    found = []
    for name, axes in (description.get("dynamic") or {}).items():
        shape = inputs[name].shape if name in inputs else None
        for axis, wanted in axes.items():
            if shape is not None and int(axis) < len(shape) and isinstance(shape[int(axis)], int):
                found.append((inputs[name], int(axis), str(wanted)))
    return found


def _open_axes(model: Model, description: Description) -> None:
    """Replaces a fixed dimension of an input by its name, and the same size at the head of a Reshape by -1."""
    graph = model.ir.graph
    for value, axis, name in _fixed_axes(model, description):
        assert value.shape is not None, "it has a fixed dimension"
        size = value.shape[axis]
        value.shape[axis] = ir.SymbolicDim(name)
        for node in graph.all_nodes():
            for output in node.outputs:
                output.shape = None
        for output in graph.outputs:
            output.shape = None
        if axis == 0 and isinstance(size, int):
            _free_reshapes(model, size)


def _free_reshapes(model: Model, size: int) -> None:
    for node in [node for node in model.ir.graph if node.op_type == "Reshape"]:
        wanted = _constant(node.inputs[1])
        if wanted is not None and len(wanted) and wanted[0] == size and -1 not in wanted:
            _set_input(model, node, 1, np.array([-1, *wanted[1:]], np.int64))


def _normalizers(model: Model) -> list[ir.Node]:
    """StringNormalizer nodes that change case in a locale which a small system does not have."""
    nodes = [node for node in model.ir.graph.all_nodes() if node.op_type == "StringNormalizer"]
    return [node for node in nodes if node.attributes.get_string("locale", "en_US") == "en_US"]


def _neutral_locale(model: Model, _: Description) -> None:
    """Replaces the locale en_US of StringNormalizer by C.UTF-8, which changes case alike and is everywhere."""
    for node in _normalizers(model):
        node.attributes["locale"] = ir.AttrString("locale", "C.UTF-8")


def _lost_columns(model: Model, description: Description) -> tuple[ir.Node, int] | None:
    """The Reshape to one column that makes the only output, and how many columns the original has."""
    outputs = list(description.get("outputs") or [])
    shape = outputs[0].get("shape") if len(outputs) == 1 else None
    if not shape or len(shape) != 2 or not isinstance(shape[1], int) or shape[1] < 2:
        return None
    node = model.ir.graph.outputs[0].producer()
    while node is not None and node.op_type in ("Cast", "Identity"):
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type != "Reshape" or _constant(node.inputs[1]) != [-1, 1]:
        return None
    return node, shape[1]


def _keep_columns(model: Model, description: Description) -> None:
    """Replaces the Reshape of an output to one long column by one that keeps the original's columns."""
    found = _lost_columns(model, description)
    assert found is not None, "asked before"
    node, columns = found
    _set_input(model, node, 1, np.array([-1, columns], np.int64))
    model.ir.graph.outputs[0].shape = None


def _softmax_trees(model: Model, description: Description) -> list[ir.Node]:
    """Classifier trees that end in a softmax although every class has a sigmoid of its own."""
    if description.get("link") != "sigmoid":
        return []
    trees = [node for node in model.ir.graph if node.op_type == "TreeEnsembleClassifier"]
    return [node for node in trees if node.attributes.get_string("post_transform", "NONE") == "SOFTMAX"]


def _one_against_all(model: Model, description: Description) -> None:
    """Replaces the softmax at the end of a tree classifier by a sigmoid for every class."""
    for node in _softmax_trees(model, description):
        node.attributes["post_transform"] = ir.AttrString("post_transform", "LOGISTIC")


def _baseless_trees(model: Model, description: Description) -> list[ir.Node]:
    """Regressor trees whose starting score is not the one that the original has."""
    base = [float(score) for score in description.get("base") or ()]
    trees = [node for node in model.ir.graph if node.op_type == "TreeEnsembleRegressor"]
    return [
        node
        for node in trees
        if base
        and "base_values_as_tensor" not in node.attributes
        and node.attributes.get_int("n_targets", 1) == len(base)
        and not np.allclose(node.attributes.get_floats("base_values", [0.0] * len(base)), base)
    ]


def _set_base(model: Model, description: Description) -> None:
    """Replaces the starting score of tree regressors by the one that the original has."""
    for node in _baseless_trees(model, description):
        node.attributes["base_values"] = ir.AttrFloat32s("base_values", [float(score) for score in description["base"]])


# The operator behind the scores for each link. An original that answers the likeliest class has its probabilities by softmax.
LINKS = {"sigmoid": "Sigmoid", "exp": "Exp", "softmax": "Softmax", "softplus": "Softplus", "argmax": "Softmax"}


def _lacks_link(model: Model, description: Description) -> bool:
    operator = LINKS.get(str(description.get("link")))
    output = model.ir.graph.outputs[-1]
    known = output.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE, None)
    return operator is not None and known and not any(node.op_type == operator for node in model.ir.graph)


def _append_link(model: Model, description: Description) -> None:
    """Replaces the scores in the last output by what the original's link function makes of them."""
    graph = model.ir.graph
    scores = graph.outputs[-1]
    node = ir.node(LINKS[str(description["link"])], [scores])
    graph.append(node)
    linked = node.outputs[0]
    linked.type, linked.shape = scores.type, scores.shape
    _take_over(graph, scores, linked)


# In this order: the output's form first, then its values.
REPAIRS = (
    Repair("list of maps unpacked", lambda model, _: bool(_lists_of_maps(model)), _drop_maps),
    Repair("fixed dimension opened", lambda model, said: bool(_fixed_axes(model, said)), _open_axes),
    Repair("locale replaced", lambda model, _: bool(_normalizers(model)), _neutral_locale),
    Repair("columns kept", lambda model, said: _lost_columns(model, said) is not None, _keep_columns),
    Repair("sigmoid for every class", lambda model, said: bool(_softmax_trees(model, said)), _one_against_all),
    Repair("starting score set", lambda model, said: bool(_baseless_trees(model, said)), _set_base),
    Repair("missing link function appended", _lacks_link, _append_link),
    Repair("sums of integers in int64", number_types.narrow_sums, number_types.widen_sums),
    Repair(
        "output types cast", lambda model, said: bool(number_types.other_types(model, said)), number_types.cast_outputs
    ),
    Repair("small integers computed in int32", number_types.has_small, number_types.compute_in_int32),
    Repair(
        "sums of int64 added up exactly",
        lambda model, said: bool(number_types.long_sums(model, said)),
        number_types.add_in_halves,
    ),
)


def _take_over(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Makes `new` the graph output that `old` was, under its name."""
    name = old.name
    old.name = f"{name}_before_repair"
    for index, value in enumerate(graph.outputs):
        if value is old:
            graph.outputs[index] = new
    new.name = name


def _constant(value: ir.Value | None) -> list[int] | None:
    """The numbers of a constant integer input."""
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    return None if tensor is None else [int(number) for number in np.asarray(tensor.numpy()).reshape(-1)]


def _set_input(model: Model, node: ir.Node, index: int, array: np.ndarray[Any, Any]) -> None:
    """Gives one node another constant, and leaves the old one to its other readers."""
    graph = model.ir.graph
    used = {value.name for value in graph.initializers.values()} | {v.name for n in graph for v in n.outputs}
    name = "repaired_shape"
    while name in used:
        name += "_"
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    value.shape, value.type = ir.Shape(array.shape), ir.TensorType(ir.DataType.INT64)
    graph.register_initializer(value)
    node.replace_input_with(index, value)
