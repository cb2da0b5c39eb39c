"""Sliding windows, which convolution and pooling share: their pads, the pieces they read, and the way back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import full, join_sizes, refined, reshape, shape_of, size_of


@dataclass(frozen=True)
class Windows:
    """A kernel that slides: sizes, strides, dilations, and the pads before and after each spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def span(self) -> tuple[int, ...]:
        """How far a kernel reaches along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def pads(self) -> list[int]:
        return [*self.before, *self.after]

    @property
    def count(self) -> int:
        return int(np.prod(self.kernel))

    @property
    def tiles(self) -> bool:
        """Whether the windows lie side by side, without overlap, gap or pad."""
        return self.kernel == self.strides and not any(self.pads) and all(d == 1 for d in self.dilations)


def windows(
    x: Expr, kernel: Sequence[int], strides: Sequence[int] | None, dilations: Sequence[int] | None,
    pads: Sequence[int] | None, auto_pad: str,
) -> Windows | None:  # fmt: skip
    """The windows over `x`, or None where automatic pads depend on a size that only the run knows."""
    rank = len(kernel)
    steps, gaps = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    found = Windows(tuple(kernel), steps, gaps, (0,) * rank, (0,) * rank)
    if auto_pad in ("NOTSET", "VALID", "", None):
        both = list(pads or [0] * 2 * rank) if auto_pad != "VALID" else [0] * 2 * rank
        return Windows(found.kernel, steps, gaps, tuple(both[:rank]), tuple(both[rank:]))
    sizes = [x.size(axis) for axis in range(2, 2 + rank)]
    totals = [_total(size, s, span) for size, s, span in zip(sizes, steps, found.span, strict=True)]
    if any(total is None for total in totals):
        return None
    low = tuple((total or 0) // 2 for total in totals)
    high = tuple((total or 0) - half for total, half in zip(totals, low, strict=True))
    return Windows(found.kernel, steps, gaps, *((low, high) if auto_pad == "SAME_UPPER" else (high, low)))


def _total(size: int | None, stride: int, span: int) -> int | None:
    if stride == 1:
        return span - 1
    return None if size is None else max((-(-size // stride) - 1) * stride + span - size, 0)


def padded_same(x: Expr, plain: Windows, auto_pad: str) -> Expr:
    """`x` with the pads of SAME, computed by the graph itself."""
    spatial = op("Shape", x, start=2)
    strides, spans = x.build.constant(list(plain.strides)), x.build.constant(list(plain.span))
    outputs = (spatial + strides - 1) / strides
    total = op("Max", (outputs - 1) * strides + spans - spatial, x.build.constant(0))
    half = total / 2
    low, high = (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)
    return op("Pad", x, op("Concat", low, high, axis=0), x._alike(0), list(range(2, x.rank)))


def pieces(x: Expr, w: Windows, counts: Sequence[Expr]) -> list[Expr]:
    """For every place in the kernel, the elements that it meets: each like the output, [n, c, *counts]."""
    rank = len(w.kernel)
    axes = list(range(2, 2 + rank))
    if any(w.pads):
        x = op("Pad", x, w.pads, x._alike(0), axes)
    found = []
    for place in itertools.product(*(range(k) for k in w.kernel)):
        starts = [p * d for p, d in zip(place, w.dilations, strict=True)]
        lengths = [
            join_reach(count, stride, start) for count, stride, start in zip(counts, w.strides, starts, strict=True)
        ]
        found.append(op("Slice", x, starts, join_sizes(lengths, x), axes, list(w.strides)))
    return found


def join_reach(count: Expr, stride: int, start: int) -> Expr | int:
    """Where a slice of `count` elements ends."""
    known = count.constant
    if known is not None:
        return start + (int(known.reshape(())) - 1) * stride + 1
    return count * stride + (start - stride + 1)


def fold_tiles(parts: Sequence[Expr], w: Windows, x: Expr) -> Expr:
    """Windows side by side, given as one part per place of the kernel, laid back into the shape of `x`."""
    rank = len(w.kernel)
    stacked = op("Concat", *(op("Unsqueeze", part, [2]) for part in parts), axis=2)
    counts = [size_of(parts[0], axis) for axis in range(2, 2 + rank)]
    cut = reshape(stacked, join_sizes([size_of(x, 0), size_of(x, 1), *w.kernel, *counts], x))
    order = [0, 1, *(axis for i in range(rank) for axis in (2 + rank + i, 2 + i))]
    laid = op("Transpose", cut, perm=order)
    whole = [_times(count, k) for count, k in zip(counts, w.kernel, strict=True)]
    flat = reshape(laid, join_sizes([size_of(x, 0), size_of(x, 1), *whole], x))
    if all(x.size(2 + i) is not None and x.size(2 + i) == flat.size(2 + i) for i in range(rank)):
        return flat
    missing = op("Sub", op("Shape", x, start=2), op("Shape", flat, start=2))
    pads = op("Concat", x.build.constant([0] * rank), missing, axis=0)
    return refined(op("Pad", flat, pads, x._alike(0), list(range(2, 2 + rank))), x)


def repeated(x: Expr, factors: Sequence[int]) -> Expr:
    """Every element of the spatial axes, as often as the factors say. onnxruntime does this for single floats only."""
    scales = x.build.constant([1, 1, *factors], ir.DataType.FLOAT)
    return op(
        "Resize", x, None, scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


def _times(count: Expr, factor: int) -> Expr | int:
    known = count.constant
    return int(known.reshape(())) * factor if known is not None else count * factor


def fold(parts: Sequence[Expr], w: Windows, x: Expr) -> Expr:
    """One part per place of the kernel, each element added where the window read it in `x`."""
    if w.tiles:
        return fold_tiles(parts, w, x)
    stacked = op("Concat", *(op("Unsqueeze", part, [2]) for part in parts), axis=2)
    rows = reshape(stacked, join_sizes([size_of(x, 0), _rows(x, w), -1], x))
    image = shape_of(x).constant
    sizes = x.build.constant(image[2:]) if image is not None else op("Shape", x, start=2)
    return refined(
        op("Col2Im", rows, sizes, list(w.kernel), dilations=list(w.dilations), strides=list(w.strides), pads=w.pads), x
    )


def _rows(x: Expr, w: Windows) -> Expr | int:
    channels = x.size(1)
    return channels * w.count if channels is not None else size_of(x, 1) * w.count


def ones(like: Expr, *sizes: Expr | int) -> Expr:
    return full(join_sizes(list(sizes), like), 1, like.dtype)
