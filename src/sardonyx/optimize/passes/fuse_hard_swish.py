"""Replaces x * clip(x + 3, 0, 6) / 6, in any order, with x * HardSigmoid(x), and clip(x + 3, 0, 6) / 6 with HardSigmoid(x)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import FLOATS, Declined, array_of, attribute, before, is_standard, opset, replace
from sardonyx.optimize.passes._rewrite import Rewrite

LINE = {"alpha": 1 / 6, "beta": 0.5}


class FuseHardSwish(Rewrite):
    """Replaces x * clip(x + 3, 0, 6) / 6 with x * HardSigmoid(x), and clip(x + 3, 0, 6) / 6 with HardSigmoid(x)."""

    order = 55
    operators = ("Div", "Mul")

    def rewrite(self, node: ir.Node) -> str | None:
        divided = _sixth(node)
        if divided is None:
            return None
        source = _clipped(divided)
        if source is not None:
            _check(source, node)
            replace(node, "HardSigmoid", [source], LINE)
            return "is now a HardSigmoid"
        product = divided.producer()
        if not is_standard(product, "Mul"):
            return None
        for factor, other in (product.inputs, tuple(reversed(product.inputs))):
            if other is not None and factor is not None and _clipped(other) is factor:
                _check(factor, node)
                if len(divided.uses()) > 1 or divided.is_graph_output():
                    raise Declined("other nodes take six times the answer")
                gate = before(node, "HardSigmoid", [factor], LINE)
                gate.type, gate.shape = divided.type, divided.shape
                replace(node, "Mul", [factor, gate])
                return "is now x * HardSigmoid(x)"
        return None


def _check(source: ir.Value, node: ir.Node) -> None:
    if source.dtype not in FLOATS:
        raise Declined(f"it computes in {source.dtype}, not in floats")
    if opset(node) < 6:
        raise Declined("HardSigmoid came with opset 6")


def _number(value: ir.Value | None) -> float | None:
    found = array_of(value)
    return float(found.reshape(())) if found is not None and found.size == 1 and found.ndim <= 1 else None


def _sixth(node: ir.Node) -> ir.Value | None:
    """What the node divides by six."""
    left, right = node.inputs
    if node.op_type == "Div":
        return left if _number(right) == 6 else None
    for value, number in ((left, _number(right)), (right, _number(left))):
        if number is not None and np.float32(number) == np.float32(1 / 6):
            return value
    return None


def _clipped(value: ir.Value) -> ir.Value | None:
    """x, where the value is clip(x + 3, 0, 6)."""
    clip = value.producer()
    if is_standard(clip, "Clip"):
        if len(clip.inputs) == 1:
            span = (attribute(clip, "min"), attribute(clip, "max"))
        else:
            span = (_number(clip.inputs[1]), _number(clip.inputs[2]) if len(clip.inputs) > 2 else None)
        if span != (0.0, 6.0):
            return None
    else:
        return None
    line = clip.inputs[0].producer()
    if not is_standard(line, "Add"):
        return None
    for source, number in ((line.inputs[0], _number(line.inputs[1])), (line.inputs[1], _number(line.inputs[0]))):
        if number == 3.0:
            return source
    return None
