"""Replaces two Transposes in a row with one, or with none where they undo each other."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, attribute, bypass, dims, is_standard, replace
from sardonyx.optimize.passes._rewrite import Rewrite


class MergeTransposes(Rewrite):
    """Replaces two Transposes in a row with one, or with none where they undo each other."""

    order = 40
    operators = ("Transpose",)

    def rewrite(self, node: ir.Node) -> str | None:
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        if not is_standard(first, "Transpose"):
            return None
        order, before = permutation(node), permutation(first)
        if order is None or before is None:
            raise Declined("the rank of its input is unknown")
        both = [before[axis] for axis in order]
        if both == sorted(both):
            bypass(node, first.inputs[0])
            return "undid the Transpose before it"
        replace(node, "Transpose", [first.inputs[0]], {"perm": both})
        return "merged with the Transpose before it"


def permutation(node: ir.Node) -> list[int] | None:
    """The order of axes that a Transpose gives; without one it reverses them."""
    found = attribute(node, "perm")
    if found is not None:
        return list(found)
    shape = dims(node.inputs[0])
    return None if shape is None else list(range(len(shape)))[::-1]
