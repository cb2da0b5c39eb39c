"""Products in bfloat16, everything else in float32: for machines whose kernels multiply so."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from sardonyx import machine
from sardonyx.quantize.prepare import copied, is_weighted
from sardonyx.quantize.schemes._matmul import has_products
from sardonyx.quantize.subject import Subject, Variant

RANK = 8


def refusal(subject: Subject) -> str | None:
    """Without instructions for it, onnxruntime has no kernel either."""
    if not has_products(subject.model):
        return "no MatMul or Gemm with constant weights"
    found = machine.features()
    return None if found.get("AMX BF16") or found.get("SVE") else "no bfloat16 on this CPU"


def variants(subject: Subject) -> Iterator[Variant]:
    """Every product with casts to bfloat16 before it and back after it."""
    own = copied(subject.model)
    for node in list(own.ir.graph):
        if node.op_type in ("MatMul", "Gemm") and is_weighted(node):
            _narrow(own.ir.graph, node)
    yield Variant("bf16", "bf16", own)


def _narrow(graph: ir.Graph, node: ir.Node) -> None:
    for index, value in enumerate(node.inputs):
        if value is not None:
            cast = _cast(value, ir.DataType.BFLOAT16, f"{node.name}_{index}_narrow")
            graph.insert_before(node, cast)
            node.replace_input_with(index, cast.outputs[0])
    result = node.outputs[0]
    users = [(use.node, use.idx) for use in result.uses()]
    cast = _cast(result, ir.DataType.FLOAT, f"{node.name}_wide")
    graph.insert_after(node, cast)
    for user, index in users:
        user.replace_input_with(index, cast.outputs[0])
    result.type = ir.TensorType(ir.DataType.BFLOAT16)
    for index, output in enumerate(graph.outputs):
        if output is result:
            cast.outputs[0].name, result.name = result.name, f"{result.name}_narrow"
            graph.outputs[index] = cast.outputs[0]


def _cast(value: ir.Value, kind: ir.DataType, name: str) -> ir.Node:
    node = ir.node("Cast", [value], {"to": kind.value}, name=name)
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = name, ir.TensorType(kind), value.shape
    return node
