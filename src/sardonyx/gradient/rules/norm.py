"""Normalisation, and Dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import (
    cast,
    count_of,
    join_sizes,
    refined,
    reshape,
    reshape_like,
    size_of,
    stretch,
    sum_to,
    swap_last,
    where,
)

# From here on a channel is worth a kernel of its own, on AVX2 with one and two threads.
_MANY_POSITIONS = 512


def _mean(x: Expr, axes: Sequence[int]) -> Expr:
    return op("ReduceMean", x, list(axes), keepdims=1)


def _centred(x: Expr, axes: Sequence[int], epsilon: float) -> tuple[Expr, Expr]:
    """`x` with mean zero and variance one over the axes, and one over its deviation."""
    away = x - _mean(x, axes)
    inverse = 1 / op("Sqrt", _mean(away * away, axes) + epsilon)
    return away * inverse, inverse


def _through_norm(g: Expr, normal: Expr, inverse: Expr, axes: Sequence[int]) -> Expr:
    """The gradient of what was normalised: the part of `g` that changes neither the mean nor the variance."""
    return inverse * (g - _mean(g, axes) - normal * _mean(g * normal, axes))


def _batch_norm(
    g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr, scale: Expr, bias: Expr, mean: Expr, variance: Expr,
    *, epsilon: float, momentum: float, training_mode: int,
) -> tuple[Expr | None, ...]:  # fmt: skip
    axes = [axis for axis in range(x.rank) if axis != 1]
    if training_mode:
        return _batch_norm_training(g, y, x, scale, axes, epsilon, momentum)
    assert g[0] is not None
    inverse = 1 / op("Sqrt", variance + epsilon)
    away = x - stretch(mean, x.rank)
    total = op("ReduceSum", g[0], axes, keepdims=0)
    along = op("ReduceSum", g[0] * away, axes, keepdims=0)
    slope = scale * inverse
    return (
        g[0] * stretch(slope, x.rank), along * inverse, total, -total * slope, -0.5 * along * slope * inverse * inverse,
    )  # fmt: skip


def _statistics(x: Expr, axes: Sequence[int]) -> tuple[Expr, Expr]:
    """Mean and variance over the axes, which are dropped."""
    mean = _mean(x, axes)
    away = x - mean
    return op("Squeeze", mean, list(axes)), op("ReduceMean", away * away, list(axes), keepdims=0)


def _batch_norm_training(
    g: tuple[Expr | None, ...],
    y: tuple[Expr, ...],
    x: Expr,
    scale: Expr,
    axes: list[int],
    epsilon: float,
    momentum: float,
) -> tuple[Expr | None, ...]:
    mean, variance = (y[1], y[2]) if momentum == 0 and y[2] is not None else _statistics(x, axes)
    inverse = 1 / op("Sqrt", variance + epsilon)
    dx = dscale = dbias = None
    if g[0] is not None:
        away = x - stretch(mean, x.rank)
        dbias = op("ReduceSum", g[0], axes, keepdims=0)
        dscale = _products(g[0], away, axes) * inverse
        share = -1 / count_of(x, axes, x)
        # The factor comes last: a convolution takes it into its weights.
        dx = (g[0] + _per_channel(away, share * dscale * inverse, share * dbias)) * stretch(scale * inverse, x.rank)
    # Running statistics: momentum times the old, the rest from this batch.
    share = (1 - momentum) / count_of(x, axes, x)
    for index, part in ((1, share), (2, 2 * share * (x - _mean(x, axes)))):
        given = g[index]
        if given is not None:
            more = stretch(given, x.rank) * part
            dx = more + 0 * x if dx is None else dx + more
    old = [None if part is None else part * momentum for part in g[1:3]]
    return dx, dscale, dbias, *old


def _large(x: Expr) -> bool:
    """Whether a channel of single floats is so large that calling a kernel for each costs less than another pass over all."""
    sizes = [x.size(axis) or 0 for axis in range(2, x.rank)]
    return x.dtype == ir.DataType.FLOAT and x.size(1) is not None and x.rank > 2 and math.prod(sizes) >= _MANY_POSITIONS


def _products(a: Expr, b: Expr, axes: list[int]) -> Expr:
    """For every channel, the sum of the products of two arrays."""
    if not _large(b):
        return op("ReduceSum", a * b, axes, keepdims=0)
    rows = [op("Reshape", part, [0, 0, 1, -1]) for part in (a, b)]
    return op("ReduceSum", rows[0] @ swap_last(rows[1]), [0, 2, 3], keepdims=0)


def _per_channel(x: Expr, slope: Expr, offset: Expr) -> Expr:
    """`slope * x + offset`, in one pass as a convolution of single points."""
    if not _large(x):
        return x * stretch(slope, x.rank) + stretch(offset, x.rank)
    points = op("Unsqueeze", slope, list(range(1, x.rank)))
    return refined(op("Conv", x, points, offset, group=x.size(1), kernel_shape=[1] * (x.rank - 2)), x)


def _layer_norm(
    g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr, scale: Expr, bias: Expr | None,
    *, axis: int, epsilon: float, at: Any,
) -> tuple[Expr | None, ...]:  # fmt: skip
    axes = list(range(axis % x.rank, x.rank))
    if x.dtype == ir.DataType.FLOAT:  # the node gives both in single precision
        inverse = at.output(2)
        normal = (x - at.output(1)) * inverse
    else:
        normal, inverse = _centred(x, axes, epsilon)
    dx = dscale = dbias = None
    if g[0] is not None:
        dx = _through_norm(g[0] * scale, normal, inverse, axes)
        dscale = sum_to(g[0] * normal, scale)
        dbias = None if bias is None else sum_to(g[0], bias)
    count = count_of(x, axes, x)
    if g[1] is not None:
        more = cast(g[1], x) / count + 0 * x
        dx = more if dx is None else dx + more
    if g[2] is not None:
        more = -cast(g[2], x) * inverse * inverse * normal / count
        dx = more if dx is None else dx + more
    return dx, dscale, dbias


def _rms_norm(g: Expr, y: Expr, x: Expr, scale: Expr, *, axis: int, epsilon: float) -> tuple[Expr, Expr]:
    axes = list(range(axis % x.rank, x.rank))
    inverse = 1 / op("Sqrt", _mean(x * x, axes) + epsilon)
    normal = x * inverse
    scaled = g * scale
    return inverse * (scaled - normal * _mean(scaled * normal, axes)), sum_to(g * normal, scale)


def _instance_norm(g: Expr, y: Expr, x: Expr, scale: Expr, bias: Expr, *, epsilon: float) -> tuple[Expr, Expr, Expr]:
    axes = list(range(2, x.rank))
    normal, inverse = _centred(x, axes, epsilon)
    rest = [0, *axes]
    dx = _through_norm(g * stretch(scale, x.rank), normal, inverse, axes)
    return dx, op("ReduceSum", g * normal, rest, keepdims=0), op("ReduceSum", g, rest, keepdims=0)


def _group_norm(
    g: Expr, y: Expr, x: Expr, scale: Expr, bias: Expr, *, epsilon: float, num_groups: int, at: Any
) -> tuple[Expr, Expr, Expr]:
    grouped = join_sizes([size_of(x, 0), num_groups, -1], x)
    rest = [0, *range(2, x.rank)]
    normal, inverse = _centred(reshape(x, grouped), [2], epsilon)
    spread = reshape_like(normal, x)
    if at.build.opset < 21:
        return _group_norm_per_group(g, x, scale, normal, inverse, grouped)
    dx = _through_norm(reshape(g * stretch(scale, x.rank), grouped), normal, inverse, [2])
    return reshape_like(dx, x), op("ReduceSum", g * spread, rest, keepdims=0), op("ReduceSum", g, rest, keepdims=0)


def _group_norm_per_group(
    g: Expr, x: Expr, scale: Expr, normal: Expr, inverse: Expr, grouped: Expr
) -> tuple[Expr, Expr, Expr]:
    """Before opset 21 there was one scale per group."""
    inner = reshape(g, grouped)
    dx = _through_norm(inner * stretch(scale, 3), normal, inverse, [2])
    return (
        reshape_like(dx, x),
        op("ReduceSum", inner * normal, [0, 2], keepdims=0),
        op("ReduceSum", inner, [0, 2], keepdims=0),
    )


def _lp_normalization(x: Expr, *, axis: int, p: int) -> Expr:
    return x / op("ReduceL1" if p == 1 else "ReduceL2", x, [axis], keepdims=1)


def _lrn(x: Expr, *, alpha: float, beta: float, bias: float, size: int) -> Expr:
    """Each channel over a power of the squares of its neighbours."""
    before = (size - 1) // 2
    padded = op("Pad", x * x, [before, size - 1 - before], x._alike(0), [1])
    channels = size_of(x, 1)
    near = [op("Slice", padded, [start], channels + start, [1]) for start in range(size)]
    total = op("Sum", *near) if size > 1 else near[0]
    return x / (bias + (alpha / size) * total) ** beta


def _dropout(
    g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr, ratio: Expr | None, training: Expr | None, *, at: Any
) -> Expr | None:
    if g[0] is None:
        return None
    if training is None:
        return g[0]
    rate = cast(ratio, x) if ratio is not None else x.build.constant(0.5, x.dtype)
    known = training.constant
    if known is not None and not known.any():
        return g[0]
    factor = 1 / (1 - rate)
    if known is None:
        factor = where(training, factor, 1)
    return where(at.output(1), g[0] * factor, 0)


RULES: dict[str, Any] = {
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "Dropout": _dropout,
}

EXPANSIONS: dict[str, Any] = {"LpNormalization": _lp_normalization, "LRN": _lrn}
