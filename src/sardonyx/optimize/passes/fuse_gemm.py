"""Replaces MatMul(a, b) + c of matrices with Gemm(a, b, c)."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import FLOATS, Declined, array_of, dims, is_standard, need_alone, opset, replace
from sardonyx.optimize.passes._rewrite import Rewrite


class FuseGemm(Rewrite):
    """Replaces MatMul(a, b) + c of matrices with Gemm(a, b, c)."""

    order = 70
    operators = ("Add",)

    def rewrite(self, node: ir.Node) -> str | None:
        for value, bias in (node.inputs, tuple(reversed(node.inputs))):
            product = value.producer() if value is not None else None
            if not is_standard(product, "MatMul") or array_of(bias) is None:
                continue
            left, right = (dims(operand) for operand in product.inputs)
            if left is None or right is None:
                raise Declined("the ranks of the MatMul's operands are unknown")
            if (len(left), len(right)) != (2, 2):
                raise Declined(f"the MatMul multiplies {len(left)} by {len(right)} dimensions, and a Gemm matrices")
            if value.dtype not in FLOATS or opset(node) < 7:
                raise Declined(f"Gemm does not take a bias of {value.dtype} at opset {opset(node)}")
            if not _spreads(dims(bias), right[1]):
                raise Declined("the bias does not spread over the rows of the product")
            need_alone(value)
            replace(node, "Gemm", [*product.inputs, bias])
            return "took in the MatMul before it"
        return None


def _spreads(bias: tuple[int | str | None, ...] | None, columns: int | str | None) -> bool:
    """Whether Gemm takes the bias: one number, or one for each column."""
    if bias is None or len(bias) > 2 or (len(bias) == 2 and bias[0] != 1):
        return False
    return not bias or bias[-1] == 1 or (isinstance(columns, int) and bias[-1] == columns)
