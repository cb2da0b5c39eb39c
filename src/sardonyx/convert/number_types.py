"""Repairs of number types: outputs of another type than the original's, sums that overflow, small integers without kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from sardonyx.model import Model

Description = Mapping[str, Any]
INT32, INT64 = ir.DataType.INT32, ir.DataType.INT64
SMALL = (ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8)
NARROW = (*SMALL, INT32, ir.DataType.UINT16, ir.DataType.BOOL)
REDUCTIONS = ("ReduceSum", "ReduceProd", "CumSum")
# Operators that ONNX or onnxruntime does not have for some of the small integers, and which of their inputs have that type.
WITHOUT_SMALL = {
    "Pow": (0, 1), "Neg": (0,), "MatMul": (0, 1), "Gemm": (0, 1, 2), "Where": (1, 2), "Max": (0, 1, 2, 3), "Min": (0, 1, 2, 3),
    "Clip": (0, 1, 2), "CumSum": (0,), "ReduceMax": (0,), "ReduceMin": (0,), "ReduceSum": (0,), "ReduceProd": (0,),
    "ArgMax": (0,), "ArgMin": (0,), "TopK": (0,), "Trilu": (0,),
    "Einsum": (0, 1), "Unique": (0,), "NonZero": (0,), "Relu": (0,), "Sign": (0,),
    "Abs": (0,), "Mod": (0, 1), "Div": (0, 1), "Mul": (0, 1), "Add": (0, 1), "Sub": (0, 1), "ReduceMean": (0,),
}  # fmt: skip
# Outputs that have the type of the inputs; the others are places or counts.
SAME_TYPE = {"ArgMax": (), "ArgMin": (), "NonZero": ()}
HALF = np.int64(1) << 32


def other_types(model: Model, said: Description) -> list[tuple[ir.Value, ir.DataType]]:
    """The outputs whose number type is not the original's, with the type that is."""
    wanted = list((said.get("output_types") or {}).values())
    outputs = list(model.ir.graph.outputs)
    if len(wanted) != len(outputs):
        return []
    pairs = [(value, _data_type(name)) for value, name in zip(outputs, wanted, strict=True)]
    return [(value, kind) for value, kind in pairs if kind is not None and value.dtype not in (None, kind)]


def cast_outputs(model: Model, said: Description) -> None:
    """Replaces each output that has another number type than the original's by a Cast of it."""
    graph = model.ir.graph
    for value, kind in other_types(model, said):
        name = value.name
        value.name = f"{name}_before_cast"
        node = ir.node("Cast", [value], {"to": int(kind)})
        graph.append(node)
        result = node.outputs[0]
        result.name, result.shape, result.type = name, value.shape, ir.TensorType(kind)
        for place, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[place] = result


def narrow_sums(model: Model, said: Description) -> bool:
    """Whether an output that is int64 in the original comes from a sum of smaller integers."""
    wider = any(kind == INT64 for _, kind in other_types(model, said))
    return wider and any(node.op_type in REDUCTIONS for node in model.ir.graph.all_nodes())


def widen_sums(model: Model, said: Description) -> None:
    """Replaces every sum or product of smaller integers by one of int64."""
    _infer(model)
    for node in list(model.ir.graph.all_nodes()):
        if node.op_type in REDUCTIONS and _dtype(node.inputs[0]) in NARROW:
            _cast_input(node, 0, INT64)
    _forget_types(model)
    for value, kind in other_types(model, said):
        value.type = ir.TensorType(kind)


def has_small(model: Model, _: Description) -> bool:
    """Whether the model computes with integers of 8 or 16 bits in operators that may not have them."""
    nodes = model.ir.graph.all_nodes()
    return any(node.op_type in WITHOUT_SMALL and node.domain == "" for node in nodes) and any(
        value.dtype in (*SMALL, ir.DataType.BOOL) for value in _values(model)
    )


def compute_in_int32(model: Model, _: Description) -> None:
    """Replaces each operator that may not have integers of 8 or 16 bits by the same one on int32, between two Casts."""
    _infer(model)
    for node in list(model.ir.graph.all_nodes()):
        lacking = (*SMALL, ir.DataType.BOOL) if node.op_type == "Where" else SMALL
        kinds = {place: _dtype(node.inputs[place]) for place in _typed(node)}
        kind = next(iter(kinds.values()), None)
        if kind not in lacking:
            continue
        for place in [place for place, own in kinds.items() if own in lacking]:
            _cast_input(node, place, INT32)
        for place in SAME_TYPE.get(node.op_type, (0,)):
            _cast_output(node.outputs[place], kind)
    _forget_types(model)


def long_sums(model: Model, _: Description) -> list[ir.Node]:
    """Sums of int64, which onnxruntime adds up in double: beyond 2**53 the last digits are lost."""
    nodes = [node for node in model.ir.graph.all_nodes() if node.op_type == "ReduceSum" and node.domain == ""]
    if any(_dtype(node.inputs[0]) is None for node in nodes):
        _infer(model)
    return [node for node in nodes if _dtype(node.inputs[0]) == INT64]


def add_in_halves(model: Model, said: Description) -> None:
    """Replaces a sum of int64 by the sums of its upper and lower 32 bits, which are exact in double."""
    for node in long_sums(model, said):
        value, graph = node.inputs[0], node.graph
        assert value is not None, "it has a type"
        assert graph is not None, "it is a node of a graph"
        size = ir.node("Constant", [], {"value": ir.tensor(np.array(HALF))})
        lower = ir.node("Mod", [value, size.outputs[0]])
        above = ir.node("Sub", [value, lower.outputs[0]])
        upper = ir.node("Div", [above.outputs[0], size.outputs[0]])
        rest = node.inputs[1:]
        sums = [ir.Node("", "ReduceSum", [half.outputs[0], *rest], node.attributes.values()) for half in (upper, lower)]
        scaled = ir.node("Mul", [sums[0].outputs[0], size.outputs[0]])
        total = ir.node("Add", [scaled.outputs[0], sums[1].outputs[0]])
        result, name = node.outputs[0], node.outputs[0].name
        for made in (size, lower, above, upper, *sums, scaled, total):
            graph.insert_before(node, made)
        new = total.outputs[0]
        new.type, new.shape = result.type, result.shape
        result.replace_all_uses_with(new, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        new.name = name


def _typed(node: ir.Node) -> list[int]:
    """The places of a node's inputs that have its number type."""
    places = WITHOUT_SMALL.get(node.op_type, ()) if node.domain == "" else ()
    return [place for place in places if place < len(node.inputs) and node.inputs[place] is not None]


def _cast_input(node: ir.Node, place: int, kind: ir.DataType) -> None:
    value, graph = node.inputs[place], node.graph
    assert value is not None, "it has this input"
    assert graph is not None, "it is a node of a graph"
    cast = ir.node("Cast", [value], {"to": int(kind)})
    graph.insert_before(node, cast)
    node.replace_input_with(place, cast.outputs[0])


def _cast_output(value: ir.Value, kind: ir.DataType) -> None:
    node = value.producer()
    assert node is not None, "it is an output of a node"
    assert node.graph is not None, "it is a node of a graph"
    cast = ir.node("Cast", [value], {"to": int(kind)})
    result, name = cast.outputs[0], value.name
    result.type, result.shape = ir.TensorType(kind), value.shape
    value.replace_all_uses_with(result, replace_graph_outputs=True)
    cast.replace_input_with(0, value)
    value.name, result.name = f"{name}_in_int32", name
    value.type = ir.TensorType(INT32)
    node.graph.insert_after(node, cast)


def _infer(model: Model) -> None:
    """Gives values their types, as far as they can be inferred; a model that is wrong in one place keeps the rest."""
    ShapeInferencePass(check_type=False, strict_mode=False)(model.ir)


def _forget_types(model: Model) -> None:
    """Takes the types off what nodes compute, except the outputs: they are inferred again."""
    kept = {id(value) for value in model.ir.graph.outputs}
    for value in _values(model):
        if value.producer() is not None and id(value) not in kept:
            value.type = value.shape = None


def _values(model: Model) -> Iterator[ir.Value]:
    yield from model.ir.graph.inputs
    for node in model.ir.graph.all_nodes():
        yield from node.outputs


def _dtype(value: ir.Value | None) -> ir.DataType | None:
    return None if value is None else value.dtype


def _data_type(name: str) -> ir.DataType | None:
    """The type that numpy calls by this name; none for text."""
    try:
        return ir.DataType.from_numpy(np.dtype(name))
    except TypeError:
        return None
