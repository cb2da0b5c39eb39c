"""Replaces a BatchNormalization, Mul, Div, Add or Sub of constants before a Conv, Gemm or MatMul with other weights of that."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._affine import (
    PRODUCTS,
    Affine,
    channel_axis,
    fold_ahead,
    of_arithmetic,
    of_batch_norm,
    rank_of,
)
from sardonyx.optimize.passes._graph import array_of, is_standard, need_alone
from sardonyx.optimize.passes._rewrite import Rewrite


class FoldAffineAhead(Rewrite):
    """Replaces a BatchNormalization, Mul, Div, Add or Sub of constants before a Conv, Gemm or MatMul with other weights."""

    order = 64
    operators = ("Conv", "Gemm", "MatMul")

    def rewrite(self, node: ir.Node) -> str | None:
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        if not is_standard(first, "BatchNormalization", "Mul", "Div", "Add", "Sub") or array_of(node.inputs[1]) is None:
            return None
        found = _read(first, node)
        if found is None:
            return None
        need_alone(node.inputs[0])
        fold_ahead(first, node, *found)
        return f"{node.op_type} took in {first.op_type}"


def _read(first: ir.Node, product: ir.Node) -> tuple[ir.Value, Affine] | None:
    # Behind a product it is folded without any loss, which is better.
    behind = first.inputs[0].producer()
    if is_standard(behind, *PRODUCTS) and array_of(behind.inputs[1]) is not None:
        return None
    if first.op_type == "BatchNormalization":
        return first.inputs[0], of_batch_norm(first)
    rank = rank_of(product)
    if rank is None or all(array_of(value) is None for value in first.inputs):
        return None
    return of_arithmetic(first, rank, channel_axis(product))
