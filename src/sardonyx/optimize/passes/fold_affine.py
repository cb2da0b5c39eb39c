"""Replaces a Mul, Div, Add or Sub of a constant after Conv, ConvTranspose, Gemm or MatMul with other weights of the product."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._affine import PRODUCTS, channel_axis, fold_behind, of_arithmetic, rank_of
from sardonyx.optimize.passes._graph import array_of, dims, is_standard, need_alone
from sardonyx.optimize.passes._rewrite import Rewrite


class FoldAffine(Rewrite):
    """Replaces a Mul, Div, Add or Sub of a constant after Conv, ConvTranspose, Gemm or MatMul with other weights."""

    order = 62
    operators = ("Mul", "Div", "Add", "Sub")

    def rewrite(self, node: ir.Node) -> str | None:
        for value in node.inputs:
            product = value.producer() if value is not None else None
            if not is_standard(product, *PRODUCTS):
                continue
            others = [other for other in node.inputs if other is not value]
            if not others or array_of(others[0]) is None:
                return None
            rank = rank_of(product)
            if rank is None or _is_bias_of_matmul(node, product):
                return None
            found = of_arithmetic(node, rank, channel_axis(product))
            if found is None:
                return None
            need_alone(value)
            fold_behind(product, node, found[1])
            return f"{node.op_type} folded into {product.op_type}"
        return None


def _is_bias_of_matmul(node: ir.Node, product: ir.Node) -> bool:
    """A MatMul has no place for it; where both are matrices another pass makes a Gemm of the two."""
    shape = dims(product.inputs[0])
    return product.op_type == "MatMul" and (node.op_type in ("Add", "Sub") or shape is None)
