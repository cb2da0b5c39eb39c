"""Replaces Reshape, Flatten, Squeeze and Unsqueeze in a row with one Reshape, or with none where the shape comes back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import (
    Declined,
    array_of,
    attribute,
    bypass,
    dims,
    is_standard,
    opset,
    replace,
    weight,
)
from sardonyx.optimize.passes._rewrite import Rewrite

SHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class MergeReshapes(Rewrite):
    """Replaces Reshape, Flatten, Squeeze and Unsqueeze in a row with one Reshape, or with none where the shape comes back."""

    order = 50
    operators = SHAPING

    def rewrite(self, node: ir.Node) -> str | None:
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        if not is_standard(first, *SHAPING):
            return None
        source, was, becomes = first.inputs[0], dims(first.inputs[0]), dims(node.outputs[0])
        if _undoes(first, node) or (was is not None and None not in was and was == becomes):
            bypass(node, source)
            return f"undid the {first.op_type} before it"
        target = _target(node)
        if target is None:
            raise Declined("more than one size of its answer is known only at run time")
        if opset(node) < 5:
            raise Declined("Reshape takes its shape as an input since opset 5")
        shape = weight(node, f"{node.outputs[0].name}_shape", np.array(target, np.int64))
        replace(node, "Reshape", [source, shape])
        return f"merged with the {first.op_type} before it"


def _target(node: ir.Node) -> list[int] | None:
    """The shape that a Reshape from anywhere needs, with at most one -1."""
    if node.op_type == "Reshape":
        asked = array_of(node.inputs[1])
        if asked is not None and 0 not in asked:
            return [int(size) for size in asked]
    shape = dims(node.outputs[0])
    if shape is None or sum(not isinstance(dim, int) for dim in shape) > 1 or 0 in shape:
        return None
    return [dim if isinstance(dim, int) else -1 for dim in shape]


def _undoes(first: ir.Node, last: ir.Node) -> bool:
    if (first.op_type, last.op_type) not in (("Squeeze", "Unsqueeze"), ("Unsqueeze", "Squeeze")):
        return False
    mine, theirs = _axes(last), _axes(first)
    # Negative axes count from ends that differ between the two, unless both are written alike and single.
    return mine is not None and mine == theirs and (all(axis >= 0 for axis in mine) or len(mine) == 1)


def _axes(node: ir.Node) -> list[int] | None:
    if len(node.inputs) > 1:
        found = array_of(node.inputs[1])
        return None if found is None else sorted(int(axis) for axis in found.reshape(-1))
    given = attribute(node, "axes")
    return None if given is None else sorted(given)
