"""Pooling: maxima by comparing the windows again, averages by spreading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.gradient.convolving import spread
from sardonyx.gradient.shapes import (
    cast,
    count_of,
    expand_like,
    join_sizes,
    refined,
    reshape,
    reshape_like,
    scatter_add,
    size_of,
    where,
)
from sardonyx.gradient.windows import Windows, fold, ones, padded_same, pieces, repeated, windows

Sizes = Sequence[int] | None


def _max_pool(
    g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr,
    *, auto_pad: str, ceil_mode: int, dilations: Sizes, kernel_shape: Sequence[int], pads: Sizes, strides: Sizes, at: Any,
) -> Any:  # fmt: skip
    if g[0] is None:
        return None
    slid = windows(x, kernel_shape, strides, dilations, pads, auto_pad)
    if slid is None or ceil_mode:
        return _max_pool_by_indices(g[0], x, at)
    if slid.tiles and x.dtype == ir.DataType.FLOAT:
        return _max_of_tiles(g[0], y[0], x, slid)
    counts = [size_of(y[0], axis) for axis in range(2, x.rank)]
    source = _padded_low(x, slid) if any(slid.pads) else x
    bare = Windows(slid.kernel, slid.strides, slid.dilations, *((0,) * len(slid.kernel),) * 2)
    parts: list[Expr] = []
    taken: Expr | None = None
    # Of equal elements the first gets the gradient, as the forward pass picks it.
    for piece in pieces(source, bare, counts):
        hit = refined(piece, y[0]).equals(y[0])
        parts.append(refined(where(hit if taken is None else hit & ~taken, g[0], 0), y[0]))
        taken = hit if taken is None else taken | hit
    return fold(parts, slid, x)


def _max_of_tiles(g: Expr, y: Expr, x: Expr, slid: Windows) -> Expr:
    """Windows side by side: each is laid over its maximum, which was measured to be several times as fast as cutting it up.

    Of equal elements the first gets the gradient: they are numbered from the back, and the largest number counts.
    """
    kernel, axes = list(slid.kernel), list(range(2, x.rank))
    known = [x.size(axis) for axis in axes]
    whole = all(size is not None and size % k == 0 for size, k in zip(known, kernel, strict=True))
    ends = op("Mul", op("Shape", y, start=2), kernel) if not whole else None
    source = x if ends is None else op("Slice", x, [0] * len(axes), ends, axes)
    numbers = x.build.constant(np.arange(slid.count, 0, -1).reshape(1, 1, *kernel), x.dtype)
    tiled = op("Tile", numbers, join_sizes([1, 1, *(size_of(y, axis) for axis in axes)], x))
    highest = refined(repeated(y, kernel), source)
    hits = cast(source.equals(highest), x) * tiled
    first = op("MaxPool", hits, kernel_shape=kernel, strides=kernel)
    found = cast(hits.equals(refined(repeated(first, kernel), hits)), x) * refined(repeated(g, kernel), hits)
    if ends is None:
        return refined(found, x)
    pads = op("Concat", x.build.constant([0] * len(axes)), op("Sub", op("Shape", x, start=2), ends), axis=0)
    return refined(op("Pad", found, pads, x._alike(0), axes), x)


def _padded_low(x: Expr, slid: Windows) -> Expr:
    lowest = x.build.constant(float("-inf"), x.dtype)
    return op("Pad", x, slid.pads, lowest, list(range(2, x.rank)))


def _max_pool_by_indices(g: Expr, x: Expr, at: Any) -> Expr:
    return scatter_add(g, at.output(1), x)


def _average_pool(
    g: Expr, y: Expr, x: Expr,
    *, auto_pad: str, ceil_mode: int, count_include_pad: int, dilations: Sizes, kernel_shape: Sequence[int], pads: Sizes,
    strides: Sizes, at: Any,
) -> Any:  # fmt: skip
    slid = windows(x, kernel_shape, strides, dilations, pads, auto_pad)
    if slid is None:
        return _average_same(at, g, x, kernel_shape, strides, dilations, auto_pad, count_include_pad)
    share = g / _window_sizes(x, y, slid, bool(ceil_mode), bool(count_include_pad))
    if slid.tiles and not ceil_mode:
        return fold([share] * slid.count, slid, x)
    # One channel at a time, with a kernel of ones.
    single = reshape(share, join_sizes([-1, 1, *_spatial(share)], x))
    image = reshape(x, join_sizes([-1, 1, *_spatial(x)], x))
    return reshape_like(spread(single, ones(x, 1, 1, *slid.kernel), slid, image, 1), x)


def _spatial(x: Expr) -> list[Expr]:
    return [size_of(x, axis) for axis in range(2, x.rank)]


def _window_sizes(x: Expr, y: Expr, slid: Windows, ceil_mode: bool, include_pad: bool) -> Expr | float:
    """How many elements each window averages over."""
    if not ceil_mode and (include_pad or not any(slid.pads)):
        return float(slid.count)
    image = ones(x, 1, 1, *_spatial(x))
    axes = list(range(2, x.rank))
    # Beyond the pads, where only a rounded-up last window reaches, nothing is counted.
    border = op("Pad", image, slid.pads, image._alike(1 if include_pad else 0), axes)
    reach = [(s - 1) + span for s, span in zip(slid.strides, slid.span, strict=True)]
    wide = op("Pad", border, [*[0] * len(axes), *reach], image._alike(0), axes)
    sums = op(
        "Conv", wide, ones(x, 1, 1, *slid.kernel), strides=list(slid.strides), dilations=list(slid.dilations),
        kernel_shape=list(slid.kernel),
    )  # fmt: skip
    return op("Slice", sums, [0] * len(axes), op("Shape", y, start=2), axes)


def _average_same(
    at: Any, g: Expr, x: Expr, kernel: Sequence[int], strides: Sizes, dilations: Sizes, auto_pad: str, include_pad: int
) -> Any:
    plain = windows(x, kernel, strides, dilations, None, "VALID")
    assert plain is not None
    settings = {"kernel_shape": list(kernel), "strides": list(plain.strides), "dilations": list(plain.dilations)}
    with at.build.recording() as nodes:
        y = op("AveragePool", padded_same(x, plain, auto_pad), **settings)
        if not include_pad:
            y = y / op("AveragePool", padded_same(ones(x, 1, 1, *_spatial(x)), plain, auto_pad), **settings)
    return at.pull(at.build, list(nodes), {y.value: g}, at.needed)


def _lp_pool(
    x: Expr,
    *,
    p: int,
    auto_pad: str,
    ceil_mode: int,
    dilations: Sizes,
    kernel_shape: Sequence[int],
    pads: Sizes,
    strides: Sizes,
) -> Expr:
    count = 1
    for size in kernel_shape:
        count *= size
    average = op(
        "AveragePool", _power(x, p), auto_pad=auto_pad, ceil_mode=ceil_mode, dilations=dilations, kernel_shape=list(kernel_shape),
        pads=pads, strides=strides, count_include_pad=1,
    )  # fmt: skip
    return (average * count) ** (1 / p)


def _power(x: Expr, p: int) -> Expr:
    return x * x if p == 2 else op("Abs", x) ** p


def _global_average(g: Expr, y: Expr, x: Expr) -> Expr:
    return expand_like(g / count_of(x, range(2, x.rank), g), x)


def _global_max(g: Expr, y: Expr, x: Expr) -> Expr:
    """To the first element that attains the maximum."""
    flat = reshape(x, join_sizes([size_of(x, 0), size_of(x, 1), -1], x))
    first = op("ArgMax", flat, axis=2, keepdims=1)
    spread_out = op("Reshape", g, join_sizes([size_of(x, 0), size_of(x, 1), 1], x))
    zeros = op("Expand", x._alike(0), op("Shape", flat))
    return reshape_like(op("ScatterElements", zeros, first, spread_out, axis=2), x)


def _global_lp(x: Expr, *, p: int) -> Expr:
    return op("ReduceSum", _power(x, p), list(range(2, x.rank)), keepdims=1) ** (1 / p)


def _max_unpool(g: Expr, y: Expr, x: Expr, indices: Expr, sizes: Expr | None) -> Expr:
    return op("Gather", reshape(g, [-1]), indices, axis=0)


def _col2im(
    g: Expr, y: Expr, x: Expr, image: Expr, block: Expr, *, dilations: Sizes, pads: Sizes, strides: Sizes
) -> Expr:
    """Every window reads what it had added."""
    kernel = block.constant
    assert kernel is not None, "the block of Col2Im is a constant"
    slid = windows(g, [int(size) for size in kernel], strides, dilations, pads, "NOTSET")
    assert slid is not None
    counts = []
    for axis, (k, s, low, high) in enumerate(zip(slid.span, slid.strides, slid.before, slid.after, strict=True), 2):
        size = g.size(axis)
        known = None if size is None else (size + low + high - k) // s + 1
        counts.append(x.build.constant([known]) if known is not None else (size_of(g, axis) + (low + high - k)) / s + 1)
    stacked = op("Concat", *(op("Unsqueeze", piece, [2]) for piece in pieces(g, slid, counts)), axis=2)
    return reshape_like(stacked, x)


RULES: dict[str, Any] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max,
    "MaxUnpool": (_max_unpool, None, None),
    "Col2Im": (_col2im, None, None),
}

EXPANSIONS: dict[str, Any] = {"LpPool": _lp_pool, "GlobalLpPool": _global_lp}
