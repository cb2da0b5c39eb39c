"""Gemm as MatMul and Add: what weight-only and dynamic quantisers look for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.quantize.prepare import constant, copied, initializer, is_weighted


def with_matmuls(model: Model) -> Model:
    """A new model in which every Gemm(x, w, b) of constant weights is Add(MatMul(x, w), b). MatMulNBits passes a Gemm by."""
    own = copied(model)
    for node in list(own.ir.graph):
        if node.op_type == "Gemm" and is_weighted(node) and _is_plain(node):
            _replace(own.ir.graph, node)
    return own


def has_products(model: Model) -> bool:
    """Whether there is a MatMul or Gemm with constant weights."""
    return any(node.op_type in ("MatMul", "Gemm") and is_weighted(node) for node in model.ir.graph)


def _is_plain(node: ir.Node) -> bool:
    def number(name: str, default: float) -> float:
        attribute = node.attributes.get(name)
        return default if attribute is None else attribute.value

    return number("alpha", 1) == 1 and number("beta", 1) == 1 and not number("transA", 0)


def _replace(graph: ir.Graph, node: ir.Node) -> None:
    weight = constant(node.inputs[1])
    assert weight is not None
    transposed = node.attributes.get("transB")
    array = weight.numpy().T if transposed is not None and transposed.value else weight.numpy()
    value = initializer(graph, f"{node.name}_matmul_weight", np.ascontiguousarray(array))
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    product = ir.node("MatMul", [node.inputs[0], value], name=node.name)
    new = [product]
    if bias is not None:
        product.outputs[0].name = f"{node.outputs[0].name}_before_bias"
        product.outputs[0].type, product.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
        new.append(ir.node("Add", [product.outputs[0], bias], name=f"{node.name}_bias"))
    ir.convenience.replace_nodes_and_values(graph, node, [node], new, node.outputs, new[-1].outputs)
