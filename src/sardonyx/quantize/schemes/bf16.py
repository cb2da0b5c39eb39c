"""Products in bfloat16, everything else in float32: for machines whose kernels multiply so."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

import numpy as np
import onnx_ir as ir

from sardonyx.errors import RuntimeRefused
from sardonyx.model import Model
from sardonyx.quantize.prepare import copied, is_weighted
from sardonyx.quantize.schemes._matmul import has_products
from sardonyx.quantize.subject import Subject, Variant
from sardonyx.run.session import Session, Settings

RANK = 8
PRODUCTS = ("MatMul", "Gemm")
# The smallest product with the casts that `narrowed` writes.
TRIAL = """<ir_version: 9, opset_import: ["": 18]> g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {{1, 2, 3, 4}}>
{{ a = Cast<to = {kind}>(x)  b = Cast<to = {kind}>(w)  c = {operator}(a, b)  y = Cast<to = 1>(c) }}"""


def refusal(subject: Subject) -> str | None:
    """A CPU may have instructions for bfloat16 that onnxruntime has no kernel for, so a product is tried."""
    if not has_products(subject.model):
        return "no MatMul or Gemm with constant weights"
    used = {node.op_type for node in subject.model.ir.graph if node.op_type in PRODUCTS and is_weighted(node)}
    if any(runs(operator, subject.settings.provider) for operator in used):
        return None
    return f"no bfloat16 kernel for {' and '.join(sorted(used))} in onnxruntime on this CPU"


def variants(subject: Subject) -> Iterator[Variant]:
    """Every product that has a kernel for it in bfloat16."""
    operators = [operator for operator in PRODUCTS if runs(operator, subject.settings.provider)]
    yield Variant("bf16", "bf16", narrowed(subject.model, operators))


@cache
def runs(operator: str, provider: str = "cpu", kind: ir.DataType = ir.DataType.BFLOAT16) -> bool:
    """Whether onnxruntime multiplies two matrices of this type here."""
    trial = Model.from_text(TRIAL.format(operator=operator, kind=kind.value))
    try:
        answer = Session(trial, Settings(provider, threads=1))({"x": np.eye(2, dtype=np.float32)})["y"]
    except RuntimeRefused:
        return False
    return bool(np.array_equal(answer, [[1, 2], [3, 4]]))


def narrowed(model: Model, operators: Collection[str]) -> Model:
    """A new model with casts to bfloat16 before every product of these operators, and back after it."""
    own = copied(model)
    for node in list(own.ir.graph):
        if node.op_type in operators and is_weighted(node):
            _narrow(own.ir.graph, node)
    return own


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
