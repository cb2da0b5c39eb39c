"""Replaces operators that change nothing with their input: Dropout, x * 1, x + 0, an empty Pad, a Cast to the same type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, array_of, attribute, bypass, dims, static_dims
from sardonyx.optimize.passes._rewrite import Rewrite

# No axis is as long as this and no tensor has as many elements, so a slice that ends there ends at the end.
LONGEST, LARGEST = 1 << 31, 1 << 40


class RemoveNoOps(Rewrite):
    """Replaces operators that change nothing with their input: Dropout, x * 1, x + 0, an empty Pad, a Cast to the same type."""

    order = 30

    def rewrite(self, node: ir.Node) -> str | None:
        value = RULES[node.op_type](node)
        if value is None:
            return None
        bypass(node, value)
        return f"{node.op_type} changed nothing"


def _dropout(node: ir.Node) -> ir.Value:
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        training = array_of(node.inputs[2])
        if training is None or bool(training.reshape(())):
            raise Declined("it is in training mode")
    if len(node.outputs) > 1 and node.outputs[1].uses():
        raise Declined("its mask is used")
    return node.inputs[0]


def _neutral(number: int, *, either_side: bool) -> Callable[[ir.Node], ir.Value | None]:
    def rule(node: ir.Node) -> ir.Value | None:
        left, right = node.inputs
        for value, constant in ((left, right), (right, left))[: 2 if either_side else 1]:
            found = array_of(constant)
            if found is not None and found.dtype.kind in "fiu" and np.all(found == number):
                return _if_it_does_not_spread(value, found.shape)
        return None

    return rule


def _if_it_does_not_spread(value: ir.Value, constant: tuple[int, ...]) -> ir.Value:
    shape = dims(value)
    if shape is None or len(constant) > len(shape):
        raise Declined("its neutral constant may add dimensions")
    for size, dim in zip(reversed(constant), reversed(shape), strict=False):
        if size not in (1, dim):
            raise Declined("its neutral constant may spread its input")
    return value


def _same_shape(node: ir.Node) -> ir.Value | None:
    was, becomes = static_dims(node.inputs[0]), static_dims(node.outputs[0])
    return node.inputs[0] if was is not None and was == becomes else None


def _transpose(node: ir.Node) -> ir.Value | None:
    order = attribute(node, "perm")
    return node.inputs[0] if order is not None and list(order) == sorted(order) else None


def _cast(node: ir.Node) -> ir.Value | None:
    kind = node.inputs[0].dtype
    return node.inputs[0] if kind is not None and int(kind) == attribute(node, "to") else None


def _single(node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _pad(node: ir.Node) -> ir.Value | None:
    pads = array_of(node.inputs[1]) if len(node.inputs) > 1 else attribute(node, "pads")
    return node.inputs[0] if pads is not None and not np.any(np.asarray(pads)) else None


def _slice(node: ir.Node) -> ir.Value | None:
    if len(node.inputs) < 3:
        return None
    starts, ends = array_of(node.inputs[1]), array_of(node.inputs[2])
    steps = array_of(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else np.ones(1)
    if starts is None or ends is None or steps is None or np.any(starts) or np.any(steps != 1):
        return None
    axes = array_of(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else np.arange(starts.size)
    if axes is None or starts.ndim != 1 or not starts.shape == ends.shape == axes.shape:
        return None
    shape = dims(node.inputs[0])
    whole = all(_reaches_the_end(int(end), int(axis), shape) for end, axis in zip(ends, axes, strict=True))
    return node.inputs[0] if whole else None


def _reaches_the_end(end: int, axis: int, shape: tuple[int | str | None, ...] | None) -> bool:
    if shape is None or end >= LONGEST - 1:
        return end >= LONGEST - 1
    if not -len(shape) <= axis < len(shape):
        return False
    size = shape[axis]
    return end >= size if isinstance(size, int) else end * math.prod(n for n in shape if isinstance(n, int)) >= LARGEST


RULES: dict[str, Callable[[ir.Node], ir.Value | None]] = {
    "Add": _neutral(0, either_side=True),
    "Cast": _cast,
    "Concat": _single,
    "Div": _neutral(1, either_side=False),
    "Dropout": _dropout,
    "Expand": _same_shape,
    "Max": _single,
    "Mean": _single,
    "Min": _single,
    "Mul": _neutral(1, either_side=True),
    "Pad": _pad,
    "Pow": _neutral(1, either_side=False),
    "Reshape": _same_shape,
    "Slice": _slice,
    "Sub": _neutral(0, either_side=False),
    "Sum": _single,
    "Tile": _same_shape,
    "Transpose": _transpose,
}
RemoveNoOps.operators = tuple(RULES)
