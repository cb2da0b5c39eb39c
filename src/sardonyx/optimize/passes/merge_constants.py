"""Replaces two Adds, or two Muls, of constants in a row with one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import FLOATS, Declined, array_of, dims, is_standard, need_alone, replace, weight
from sardonyx.optimize.passes._rewrite import Rewrite
from sardonyx.signature import Array


class MergeConstants(Rewrite):
    """Replaces two Adds, or two Muls, of constants in a row with one."""

    order = 68
    operators = ("Add", "Mul")

    def rewrite(self, node: ir.Node) -> str | None:
        outer = _split(node)
        first = outer[0].producer() if outer is not None else None
        if outer is None or not is_standard(first, node.op_type):
            return None
        inner = _split(first)
        if inner is None:
            return None
        need_alone(outer[0])
        source, kind = inner[0], outer[0].dtype
        if kind not in FLOATS:
            raise Declined(f"it computes in {kind}, not in floats")
        shape = dims(source)
        combine = np.add if node.op_type == "Add" else np.multiply
        merged = np.asarray(combine(inner[1].astype(np.float64), outer[1].astype(np.float64)))
        if shape is None or merged.ndim > len(shape):
            raise Declined("the rank of its input is unknown, or its constant has more dimensions")
        if merged.size > max(inner[1].size, outer[1].size):
            raise Declined("one constant for both would be larger than each of them")
        rounded = merged.astype(outer[1].dtype)
        if not np.all(np.isfinite(rounded)):
            raise Declined("the constants together overflow")
        replace(node, node.op_type, [source, weight(node, f"{node.outputs[0].name}_constant", rounded, dtype=kind)])
        return f"merged with the {first.op_type} before it"


def _split(node: ir.Node) -> tuple[ir.Value, Array] | None:
    """The computed operand and the constant one."""
    left, right = node.inputs
    for value, constant in ((left, array_of(right)), (right, array_of(left))):
        if constant is not None and value is not None and array_of(value) is None:
            return value, constant
    return None
