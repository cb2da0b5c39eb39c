"""Replaces a BatchNormalization with a Mul, with an Add, or with both where a Mul or Add beside it takes them in."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._affine import PRODUCTS, of_batch_norm
from sardonyx.optimize.passes._graph import Declined, array_of, before, dims, is_standard, replace, weight
from sardonyx.optimize.passes._rewrite import Rewrite
from sardonyx.signature import Array


class LowerBatchNorm(Rewrite):
    """Replaces a BatchNormalization with a Mul, with an Add, or with both where a Mul or Add beside it takes them in."""

    order = 66
    operators = ("BatchNormalization",)

    def rewrite(self, node: ir.Node) -> str | None:
        source = node.inputs[0]
        if is_standard(source.producer(), *PRODUCTS):
            return None  # the pass that folds it into the product says why it could not
        affine = of_batch_norm(node)
        shape = dims(source)
        if shape is None:
            raise Declined("the rank of its input is unknown")
        scales, shifts = bool(np.any(affine.scale != 1)), affine.shifts
        if scales and shifts and not _has_neighbour(node):
            raise Declined("it is one step, and the Mul and Add that it amounts to would be two")

        def constant(values: Array, word: str) -> ir.Value:
            kind = node.inputs[1].dtype
            column = values.reshape(-1, *[1] * (len(shape) - 2)).astype(kind.numpy())
            return weight(node, f"{node.outputs[0].name}_{word}", column, dtype=kind)

        if scales and shifts:
            scaled = before(node, "Mul", [source, constant(affine.scale, "scale")])
            scaled.type, scaled.shape = source.type, source.shape
            replace(node, "Add", [scaled, constant(affine.shift, "shift")])
            return "is now a Mul and an Add"
        if shifts:
            replace(node, "Add", [source, constant(affine.shift, "shift")])
            return "is now an Add"
        replace(node, "Mul", [source, constant(affine.scale, "scale")])
        return "is now a Mul"


def _has_neighbour(node: ir.Node) -> bool:
    """Whether a Mul of a constant comes before, or an Add of one after, so that the number of steps does not grow."""
    ahead = node.inputs[0].producer()
    if is_standard(ahead, "Mul") and any(array_of(value) is not None for value in ahead.inputs):
        return len(node.inputs[0].uses()) == 1 and not node.inputs[0].is_graph_output()
    users = [use.node for use in node.outputs[0].uses()]
    if len(users) != 1 or node.outputs[0].is_graph_output() or not is_standard(users[0], "Add", "Sub"):
        return False
    return any(array_of(value) is not None for value in users[0].inputs)
