"""Operators that move elements: the gradient moves back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import (
    iota_like,
    join_sizes,
    reshape,
    reshape_like,
    scatter_add,
    shape_of,
    size_of,
    split,
    sum_to,
    transpose,
    where,
    zeros_like,
)  # fmt: skip


def _back(g: Expr, y: Expr, x: Expr, *_: Expr | None) -> Expr:
    return reshape_like(g, x)


def _transpose(g: Expr, y: Expr, x: Expr, *, perm: Sequence[int] | None) -> Expr:
    order = list(perm) if perm is not None else list(range(x.rank))[::-1]
    return op("Transpose", g, perm=[int(axis) for axis in np.argsort(order)])


def _concat(g: Expr, y: Expr, *inputs: Expr, axis: int) -> tuple[Expr, ...]:
    return tuple(split(g, [size_of(x, axis) for x in inputs], axis))


def _split(g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr, sizes: Expr | None, *, axis: int) -> Expr:
    parts = [zeros_like(piece) if part is None else part for part, piece in zip(g, y, strict=True)]
    return op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def _slice(
    g: Expr, y: Expr, x: Expr, starts: Expr, ends: Expr, axes: Expr | None = None, steps: Expr | None = None
) -> Expr:
    taken = _static_steps(x, starts, axes, steps)
    if taken is None:
        return scatter_add(g, op("Slice", iota_like(x), starts, ends, axes, steps), x)
    for axis, (_, step) in taken.items():
        if step > 1:
            g = _apart(g, axis, step)
    after = [
        op("Sub", op("Sub", size_of(x, axis), size_of(g, axis)), [start]) if x.size(axis) is None or g.size(axis) is None
        else (x.size(axis) or 0) - (g.size(axis) or 0) - start
        for axis, (start, _) in taken.items()
    ]  # fmt: skip
    pads = join_sizes([*(start for start, _ in taken.values()), *after], g)
    # What was put behind the last element may lie beyond the end: such a pad is below zero, and cuts.
    return op("Pad", g, pads, g._alike(0), list(taken))


def _apart(g: Expr, axis: int, step: int) -> Expr:
    """The elements along an axis with zeros behind each, so that they lie `step` apart."""
    sizes = [size_of(g, other) for other in range(g.rank)]
    count = g.size(axis)
    sizes[axis] = g.build.constant([count * step]) if count is not None else sizes[axis] * step
    single = op("Unsqueeze", g, [axis + 1])
    wide = op("Concat", single, *[zeros_like(single)] * (step - 1), axis=axis + 1)  # a Pad so short is slower
    return reshape(wide, join_sizes(sizes, g))


def _static_steps(x: Expr, starts: Expr, axes: Expr | None, steps: Expr | None) -> dict[int, tuple[int, int]] | None:
    """Axis to start and step of a slice that goes forward, or None where that is not known or not so."""
    begin = starts.constant
    chosen = range(x.rank) if axes is None else axes.constant
    strides: Any = [1] * x.rank if steps is None else steps.constant
    if begin is None or chosen is None or strides is None or np.any(np.asarray(strides) < 1):
        return None
    found = {}
    for axis, start, step in zip(
        np.ravel(np.asarray(chosen)).tolist(), np.ravel(begin).tolist(), strides, strict=False
    ):
        size = x.size(axis)
        if start < 0 and size is None:
            return None
        # Beyond the end the slice is empty, and with an unknown size only the run can tell.
        if size is not None:
            start = min(max(start + size if start < 0 else start, 0), size)
        found[axis % x.rank] = start, int(step)
    return found


def _pad(
    g: Expr, y: Expr, x: Expr, pads: Expr, value: Expr | None = None, axes: Expr | None = None, *, mode: str, at: Any
) -> tuple[Expr | None, ...]:
    if mode != "constant":
        return (scatter_add(g, op("Pad", iota_like(x), pads, None, axes, mode=mode), x),)
    inner = op("Pad", g, op("Neg", pads), g._alike(0), axes)
    if not at.needs(2):
        return (inner,)
    assert value is not None
    return inner, None, reshape_like(op("ReduceSum", g, keepdims=0) - op("ReduceSum", inner, keepdims=0), value)


def _tile(g: Expr, y: Expr, x: Expr, repeats: Expr) -> Expr:
    """Cut every axis into copies and the axis itself, then sum over the copies."""
    known = repeats.constant
    if known is not None and x.sizes is not None:
        sizes: Expr | list[int] = [int(n) for pair in zip(np.ravel(known), x.sizes, strict=True) for n in pair]
    else:
        pairs = op("Concat", op("Unsqueeze", repeats, [1]), op("Unsqueeze", shape_of(x), [1]), axis=1)
        sizes = reshape(pairs, [2 * x.rank])
    return op("ReduceSum", reshape(g, sizes), list(range(0, 2 * x.rank, 2)), keepdims=0)


def _depth_to_space(g: Expr, y: Expr, x: Expr, *, blocksize: int, mode: str) -> Expr:
    if mode == "DCR":
        return op("SpaceToDepth", g, blocksize=blocksize)
    height, width = size_of(x, 2), size_of(x, 3)
    cut = reshape(g, join_sizes([size_of(g, 0), size_of(g, 1), height, blocksize, width, blocksize], g))
    return reshape_like(transpose(cut, [0, 1, 3, 5, 2, 4]), x)


def _space_to_depth(g: Expr, y: Expr, x: Expr, *, blocksize: int, mode: str | None) -> Expr:
    return op("DepthToSpace", g, blocksize=blocksize, mode=mode or "DCR")


def _reverse(g: Expr, y: Expr, x: Expr, lengths: Expr, *, batch_axis: int, time_axis: int) -> Expr:
    return op("ReverseSequence", g, lengths, batch_axis=batch_axis, time_axis=time_axis)


BROADCASTS = {"Where"}

RULES: dict[str, Any] = {
    "Reshape": _back,
    "Flatten": _back,
    "Squeeze": _back,
    "Unsqueeze": _back,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
    "Expand": lambda g, y, x, shape: sum_to(g, x),
    "Where": (None, lambda g, y, c, a, b: where(c, g, 0), lambda g, y, c, a, b: where(c, 0, g)),
    "Trilu": lambda g, y, x, k, *, upper: op("Trilu", g, k, upper=upper),
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "ReverseSequence": _reverse,
}

ZERO = {"Shape", "Size", "NonZero", "ConstantOfShape"}
