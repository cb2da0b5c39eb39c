"""The two modes of a network: in training BatchNormalization learns its statistics and Dropout drops; in evaluation neither."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx.build import Builder, infer
from sardonyx.errors import InputError
from sardonyx.gradient.shapes import count_of
from sardonyx.model import Model
from sardonyx.training.dropout import drop

BatchNorm = Literal["onnx", "torch", "frozen"]
OUT = ".out"
SEED = "dropout_seed"


def in_evaluation(model: Model) -> None:
    """Makes every Dropout pass everything on, and every BatchNormalization use its running statistics."""
    for node in list(model.ir.graph.all_nodes()):
        if node.op_type == "BatchNormalization" and node.attributes.get_int("training_mode", 0):
            node.attributes["training_mode"] = ir.AttrInt64("training_mode", 0)
            node.resize_outputs(1)
        if node.op_type == "Dropout" and len(node.inputs) > 2:
            node.replace_input_with(2, None)


def in_training(model: Model, *, batch_norm: BatchNorm = "onnx") -> tuple[dict[str, str], str | None]:
    """Makes the network learn; gives the outputs that hold the new statistics, and the seed input if there is Dropout.

    `batch_norm`: the running variance as ONNX has it (biased), as PyTorch has it, or `frozen` for none of it.
    """
    build = Builder(model.ir.graph, model.opset)
    statistics = {} if batch_norm == "frozen" else _learn_statistics(build, unbiased=batch_norm == "torch")
    seed = _drop(build)
    passes.TopologicalSortPass()(model.ir)
    return statistics, seed


def dropout_ratio(node: ir.Node) -> float:
    """The share that a Dropout drops: a half where it does not say."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return 0.5
    tensor = ir.convenience.get_const_tensor(node.inputs[1])
    if tensor is None:
        raise InputError(f"the Dropout '{node.name}' computes its ratio", hint="export it with a fixed ratio")
    return float(tensor.numpy().reshape(()))


def _learn_statistics(build: Builder, *, unbiased: bool) -> dict[str, str]:
    newest: dict[ir.Value, ir.Value] = {}
    for node in list(build.graph):
        if node.op_type != "BatchNormalization":
            continue
        for index in (3, 4):  # a layer that is used twice learns twice
            node.replace_input_with(index, newest.get(_given(node, index), _given(node, index)))
        node.attributes["training_mode"] = ir.AttrInt64("training_mode", 1)
        node.resize_outputs(3)
        for value in node.outputs[1:]:
            value.name = build.names.fresh(f"{node.name or 'BatchNormalization'}_statistic")
        old = _given(node, 3), _given(node, 4)
        infer(node, build.opset)
        fresh = _unbiased(build, node) if unbiased else (node.outputs[1], node.outputs[2])
        newest.update(zip(old, fresh, strict=True))
    return _as_outputs(build, newest)


def _given(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _unbiased(build: Builder, node: ir.Node) -> tuple[ir.Value, ir.Value]:
    """PyTorch's running statistics, whose variance divides by one less than the count.

    The node gives those of the batch alone. onnxruntime writes them over the statistics that it is given, so it is given
    values that nobody else reads.
    """
    x = build.expr(_given(node, 0))
    count = count_of(x, [axis for axis in range(x.rank) if axis != 1], x)
    momentum = node.attributes.get_float("momentum", 0.9)
    node.attributes["momentum"] = ir.AttrFloat32("momentum", 0.0)
    found = []
    for index, factor in ((3, 1.0), (4, count / (count - 1))):
        old, batch = build.expr(_given(node, index)), build.expr(node.outputs[index - 2])
        node.replace_input_with(index, (old * 0).value)
        found.append((old * momentum + batch * (factor * (1 - momentum))).value)
    return found[0], found[1]


def _as_outputs(build: Builder, newest: dict[ir.Value, ir.Value]) -> dict[str, str]:
    """Follows each running statistic, which is an input of the graph, to its last value."""
    found = {}
    for first in [value for value in newest if value.is_graph_input()]:
        last = newest[first]
        while last in newest:
            last = newest[last]
        last.name = build.names.fresh(f"{first.name}{OUT}")
        last.shape, last.type = first.shape, first.type
        build.graph.outputs.append(last)
        found[first.name or ""] = last.name
    return found


def _drop(build: Builder) -> str | None:
    nodes = [node for node in build.graph if node.op_type == "Dropout" and dropout_ratio(node) > 0]
    if not nodes:
        return None
    seed = ir.val(build.names.fresh(SEED), ir.DataType.INT64, ())
    build.graph.inputs.append(seed)
    for number, node in enumerate(nodes):
        dropped, kept = drop(build.expr(_given(node, 0)), build.expr(seed), dropout_ratio(node), number)
        build.replace(node.outputs[0], dropped)
        if len(node.outputs) > 1:
            build.replace(node.outputs[1], kept)
        build.graph.remove(node, safe=True)
    return seed.name
