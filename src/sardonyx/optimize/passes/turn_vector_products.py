"""Replaces the product of a transposed matrix and a vector with the product of the vector and the matrix."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, attribute, dims, is_standard, need_alone, replace
from sardonyx.optimize.passes._rewrite import Rewrite


class TurnVectorProducts(Rewrite):
    """Replaces MatMul(Transpose(w), v) of a vector v with MatMul(v, w), and MatMul(v, Transpose(w)) with MatMul(w, v).

    onnxruntime 1.31 fuses the first into one operator that reads the vector wrongly.
    """

    order = 74
    operators = ("MatMul",)

    def rewrite(self, node: ir.Node) -> str | None:
        for side, value in enumerate(node.inputs):
            transpose, other = value.producer() if value is not None else None, node.inputs[1 - side]
            if value is None or not is_standard(transpose, "Transpose"):
                continue
            if len(dims(other) or ()) != 1:
                raise Declined("the other operand is not known to be a vector")
            if not _swaps_the_last_two(transpose):
                raise Declined("the Transpose does not only swap the last two dimensions")
            need_alone(value)
            matrix = transpose.inputs[0]
            replace(node, "MatMul", [other, matrix] if side == 0 else [matrix, other])
            return "multiplies the vector from the other side"
        return None


def _swaps_the_last_two(transpose: ir.Node) -> bool:
    order = attribute(transpose, "perm")
    if order is None:
        return len(dims(transpose.inputs[0]) or ()) == 2
    rank = len(order)
    return rank > 1 and list(order) == [*range(rank - 2), rank - 1, rank - 2]
