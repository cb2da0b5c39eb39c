"""Small values computed ahead of the run: the shapes, axes and lengths that decide the sizes of everything else."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.inspect.facts import SMALL, Fact

# Operators that exporters build shapes with. Each is deterministic, and its result is as small as its inferred shape.
FOLDED = frozenset((
    "Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape", "CumSum", "Div", "Equal",
    "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity",
    "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Pow", "Range", "ReduceMax",
    "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Slice",
    "Split", "Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where", "Xor",
))  # fmt: skip


def constant(node: ir.Node) -> Fact:
    """The value of a Constant node."""
    tensor = constant_tensor(node)
    return Fact(constant=True) if tensor is None else Fact.of_weight(tensor)


def constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """The tensor that a Constant node holds, whichever attribute holds it."""
    for name, attribute in node.attributes.items():
        if name == "value":
            return attribute.as_tensor()
        if name in ("value_int", "value_ints"):
            return ir.tensor(np.array(attribute.value, np.int64))
        if name in ("value_float", "value_floats"):
            return ir.tensor(np.array(attribute.value, np.float32))
    return None


def evaluated(node: ir.Node, inputs: Sequence[Fact], outputs: list[Fact], opsets: Mapping[str, int]) -> list[Fact]:
    """The outputs with their elements, where all inputs are known and the outputs are small."""
    if node.domain != "":
        return outputs
    if node.op_type in ("Shape", "Size"):
        return _measured(node, inputs[0], outputs)
    present = [fact.data is not None for value, fact in zip(node.inputs, inputs, strict=True) if value is not None]
    # The size is bounded before anything is computed: a huge ConstantOfShape must not be built. NonZero is never larger
    # than its rank times its small input.
    small = all(fact.elements is not None and fact.elements <= SMALL for fact in outputs) or node.op_type == "NonZero"
    if node.op_type not in FOLDED or not all(present) or not small:
        return outputs
    arrays = _run(node, inputs, opsets)
    if arrays is None:
        return outputs
    return [
        Fact.tensor(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array, constant=fact.constant)
        for array, fact in zip(arrays, outputs, strict=True)
    ]


def node_proto(node: ir.Node, domain: str, name: str, *, attributes: Container[str] | None = None) -> onnx.NodeProto:
    """The node alone, as operator `name`, with those attributes that it takes.

    Inputs and outputs are named by position; one that is left out stays without a name.
    """
    proto = onnx.NodeProto(op_type=name, domain=domain)
    proto.input.extend("" if value is None else f"i{index}" for index, value in enumerate(node.inputs))
    proto.output.extend("" if value.name == "" else f"o{index}" for index, value in enumerate(node.outputs))
    kept = (item for name, item in node.attributes.items() if attributes is None or name in attributes)
    proto.attribute.extend(map(ir.to_proto, kept))
    return proto


def _measured(node: ir.Node, source: Fact, outputs: list[Fact]) -> list[Fact]:
    if source.sizes is None:
        return outputs
    if node.op_type == "Size":
        numbers = np.array(source.elements, np.int64)
    else:
        start, end = (node.attributes.get(name) for name in ("start", "end"))
        span = slice(None if start is None else start.as_int(), None if end is None else end.as_int())
        numbers = np.array(source.sizes[span], np.int64)
    return [Fact.tensor(onnx.TensorProto.INT64, numbers.shape, numbers, constant=source.constant)]


def _run(node: ir.Node, inputs: Sequence[Fact], opsets: Mapping[str, int]) -> list[np.ndarray[Any, Any]] | None:
    from onnx.reference import ReferenceEvaluator

    proto = node_proto(node, "", node.op_type)
    feeds = {name: fact.data for name, fact in zip(proto.input, inputs, strict=True) if name}
    graph = onnx.GraphProto(name="fold", node=[proto])  # a node alone would be read as of the newest opset
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in feeds)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in proto.output)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(graph, opsets=dict(opsets)).run(None, feeds)
    except Exception:  # noqa: BLE001  whatever numpy raises on a faulty node, its value just stays unknown
        return None
    arrays = [np.asarray(result) for result in results]
    return arrays if len(arrays) == len(node.outputs) else None
