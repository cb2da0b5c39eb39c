"""Convolution: the input's gradient by the transposed convolution, the weights' by one product with the windows read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.errors import NoGradient
from sardonyx.gradient.convolving import spread
from sardonyx.gradient.shapes import join_sizes, refined, reshape, reshape_like, size_of, swap_last
from sardonyx.gradient.windows import Windows, padded_same, pieces, windows

Sizes = Sequence[int] | None
# Where one way of multiplying becomes faster than another, on AVX2 with one and two threads.
_FEW_COLUMNS, _MANY_ROWS, _MANY_POSITIONS = 64, 32, 64
_NARROW, _FEW_PLACES = 32, 32
# How many more rows than there are outputs a product may have, to spare copies.
_LITTLE_MORE = 1.25


def _spatial(w: Expr) -> list[int]:
    sizes = [w.size(axis) for axis in range(2, w.rank)]
    if any(size is None for size in sizes) or w.size(0) is None or w.size(1) is None:
        raise NoGradient(
            f"the weights '{w.value.name}' of a convolution have an unknown shape {w.shape}",
            hint="give the model's inputs and initializers their sizes",
        )
    return [size or 0 for size in sizes]


def _conv(
    g: Expr, y: Expr, x: Expr, w: Expr, b: Expr | None,
    *, auto_pad: str, dilations: Sizes, group: int, pads: Sizes, strides: Sizes, at: Any,
) -> Any:  # fmt: skip
    kernel = _spatial(w)
    slid = windows(x, kernel, strides, dilations, pads, auto_pad)
    if slid is None:
        return _conv_same(at, g, x, w, b, kernel, strides, dilations, auto_pad, group)
    g, factor = _without_factor(g)
    dx = spread(g, w if factor is None else w * factor, slid, x, group) if at.needs(0) else None
    dw = weight_gradient(x, g, w, slid, group) if at.needs(1) else None
    db = _sum_spatial(g) if at.needs(2) else None
    if factor is not None:
        dw = None if dw is None else dw * factor
        db = None if db is None else db * reshape(factor, [-1])
    return dx, dw, db


def _without_factor(g: Expr) -> tuple[Expr, Expr | None]:
    """A gradient that was just multiplied by one number per channel, before that; and the numbers, as weights take them.

    The weights are few: so a pass over the array is spared.
    """
    node = g.value.producer()
    if node is None or node.op_type != "Mul" or g.value.is_graph_output():
        return g, None
    whole, numbers = (g.build.expr(value) for value in node.inputs if value is not None)
    if whole.shape != g.shape or numbers.sizes != (1, g.size(1), *[1] * (g.rank - 2)):
        return g, None
    return whole, reshape(numbers, [-1, *[1] * (g.rank - 1)])


def _conv_same(
    at: Any, g: Expr, x: Expr, w: Expr, b: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: str, group: int
) -> Any:
    """SAME over sizes that only the run knows: pad first, then differentiate the plain convolution of that."""
    plain = windows(x, kernel, strides, dilations, None, "VALID")
    assert plain is not None
    with at.build.recording() as nodes:
        padded = padded_same(x, plain, auto_pad)
        y = op("Conv", padded, w, b, strides=list(plain.strides), dilations=list(plain.dilations), group=group)
    return at.pull(at.build, list(nodes), {y.value: g}, at.needed)


def weight_gradient(x: Expr, g: Expr, w: Expr, slid: Windows, group: int) -> Expr:
    """For every place of the kernel, the product of the outputs' gradients with the elements that it met.

    Of several ways the one that was measured to be the fastest for such sizes.
    """
    inputs, outputs = w.size(1) or 0, (w.size(0) or 0) // group
    counts = [size_of(g, axis) for axis in range(2, g.rank)]
    apart = set(slid.strides) != {1} and slid.count <= _FEW_PLACES
    if apart or (inputs * slid.count <= _FEW_COLUMNS and slid.count > 1):
        return _product_with_all(x, g, w, slid, counts, group, inputs, outputs)
    moves = _moves(x, g, slid)
    if group == 1 and outputs >= _MANY_ROWS and (moves is not None or _positions(g) >= _MANY_POSITIONS):
        parts = _flat_products(x, g, slid, counts, moves, inputs, outputs)
    else:
        parts = _batched_products(x, g, slid, counts, moves, group, inputs, outputs)
    if len(parts) == 1:
        return reshape_like(parts[0], w)
    places = reshape(op("Concat", *parts, axis=0), [len(parts), -1])
    return reshape_like(op("Transpose", places, perm=[1, 0]), w)


def _batched_products(
    x: Expr, g: Expr, slid: Windows, counts: list[Expr], moves: _Moves | None, group: int, inputs: int, outputs: int
) -> list[Expr]:
    """Per sample and group, then summed over the samples: [group, outputs, inputs] each."""
    lefts, rights = _met(x, g, slid, counts, moves)
    lefts = [reshape(left, join_sizes([size_of(g, 0), group, outputs, -1], g)) for left in lefts]
    rights = [swap_last(reshape(right, join_sizes([size_of(g, 0), group, inputs, -1], g))) for right in rights]
    return [op("ReduceSum", left @ right, [0], keepdims=0) for left, right in itertools.product(lefts, rights)]


def _flat_products(
    x: Expr, g: Expr, slid: Windows, counts: list[Expr], moves: _Moves | None, inputs: int, outputs: int
) -> list[Expr]:
    """Many channels: over samples and positions at once, so that no array per sample is made."""
    order = [1, 0, *range(2, g.rank)]
    lefts, rights = _met(op("Transpose", x, perm=order), op("Transpose", g, perm=order), slid, counts, moves)
    lefts, rights = [reshape(left, [outputs, -1]) for left in lefts], [reshape(right, [inputs, -1]) for right in rights]
    return [op("Gemm", left, right, transB=1) for left, right in itertools.product(lefts, rights)]


def _met(x: Expr, g: Expr, slid: Windows, counts: list[Expr], moves: _Moves | None) -> tuple[list[Expr], list[Expr]]:
    """Gradients and elements: each of the one with each of the other are the places of the kernel, in their order."""
    if moves is None:
        return [g], pieces(x, slid, counts)
    rows, columns = g.size(2) or 0, g.size(3) or 0
    # The gradient's rows are moved as one long line, in which a row is a step of so many columns.
    lines = reshape(g, join_sizes([size_of(g, 0), size_of(g, 1), rows * columns], g))
    return (
        [_moved(lines, [step * columns for step in pads]) for pads in moves.down],
        [_moved(x, pads) for pads in moves.aside],
    )


def _moved(x: Expr, pads: Sequence[int]) -> Expr:
    """`x` along its last axis, of which negative pads cut."""
    if not any(pads):
        return x
    size = x.size(-1)
    if size is not None and size <= _NARROW:  # a product with ones at the right places moves short rows faster
        return x @ x.build.constant(np.eye(size, size + sum(pads), pads[0]), x.dtype)
    return op("Pad", x, list(pads), x._alike(0), [x.rank - 1])


@dataclass(frozen=True)
class _Moves:
    """Pads by which the gradient moves down for each row of the kernel, and those by which the input moves aside for each
    column: a few copies of both then serve all places."""

    down: list[tuple[int, int]]
    aside: list[tuple[int, int]]


def _moves(x: Expr, g: Expr, slid: Windows) -> _Moves | None:
    """The moves of windows that are one apart; None where there are none, or where they do not pay."""
    height, width, rows, columns = (part.size(axis) if part.rank == 4 else None for part in (x, g) for axis in (2, 3))
    if set(slid.strides) != {1} or not height or not width or not rows or not columns:
        return None
    first, second = (
        [place * step - pad for place in range(size)]
        for size, step, pad in zip(slid.kernel, slid.dilations, slid.before, strict=True)
    )
    down = [(start, height - rows - start) for start in first]
    aside = [(-start, columns - width + start) for start in second]
    inside = min(map(min, down)) > -rows and min(map(min, aside)) > -width
    return _Moves(down, aside) if inside and height <= _LITTLE_MORE * rows else None


def _product_with_all(
    x: Expr, g: Expr, w: Expr, slid: Windows, counts: list[Expr], group: int, inputs: int, outputs: int
) -> Expr:
    """Few inputs, as colours or one channel per group, or windows further apart: all places side by side, in one product."""
    left = reshape(g, join_sizes([size_of(g, 0), group, outputs, -1], g))
    right = reshape(_all_read(x, slid, counts), join_sizes([size_of(g, 0), group, inputs * slid.count, -1], g))
    return reshape_like(op("ReduceSum", left @ swap_last(right), [0], keepdims=0), w)


def _all_read(x: Expr, slid: Windows, counts: list[Expr]) -> Expr:
    """What each place of the kernel meets, channel by channel."""
    if slid.count > _FEW_PLACES:
        return op("Concat", *(op("Unsqueeze", piece, [2]) for piece in pieces(x, slid, counts)), axis=2)
    # A convolution with a single one at each place copies on all threads.
    channels = reshape(x, join_sizes([-1, 1, *(size_of(x, axis) for axis in range(2, x.rank))], x))
    ones = x.build.constant(np.eye(slid.count).reshape(slid.count, 1, *slid.kernel), x.dtype)
    return op(
        "Conv", channels, ones, strides=list(slid.strides), dilations=list(slid.dilations), pads=slid.pads,
        kernel_shape=list(slid.kernel),
    )  # fmt: skip


def _positions(g: Expr) -> int:
    """How many places the kernel takes; many where it is not known."""
    positions = 1
    for axis in range(2, g.rank):
        positions *= g.size(axis) or 1 << 20
    return positions


def _sum_spatial(g: Expr) -> Expr:
    return op("ReduceSum", g, [0, *range(2, g.rank)], keepdims=0)


def _conv_transpose(
    g: Expr, y: Expr, x: Expr, w: Expr, b: Expr | None,
    *, auto_pad: str, dilations: Sizes, group: int, output_padding: Sizes, output_shape: Sizes,
    pads: Sizes, strides: Sizes, at: Any,
) -> Any:  # fmt: skip
    """The other way round: the gradient of the output is what a convolution with the same windows reads."""
    slid = windows(y, _spatial(w), strides, dilations, pads, "NOTSET")
    assert slid is not None
    if output_shape is not None or auto_pad not in ("NOTSET", "VALID"):
        slid = _from_output(slid, x, y, output_padding, auto_pad)
    found: list[Expr | None] = [None, None, None]
    if at.needs(0):
        dx = op(
            "Conv", g, w, strides=list(slid.strides), dilations=list(slid.dilations), pads=slid.pads, group=group,
            kernel_shape=list(slid.kernel),
        )  # fmt: skip
        found[0] = refined(dx, x)
    if at.needs(1):
        found[1] = weight_gradient(g, x, w, slid, group)
    if at.needs(2):
        found[2] = _sum_spatial(g)
    return tuple(found)


def _from_output(slid: Windows, x: Expr, y: Expr, output_padding: Sizes, auto_pad: str) -> Windows:
    """The pads that a given output shape, or SAME, leads to, as the operator defines them."""
    extra = output_padding or [0] * len(slid.kernel)
    before, after = [], []
    for axis, (stride, span, more) in enumerate(zip(slid.strides, slid.span, extra, strict=True), 2):
        size, wanted = x.size(axis), y.size(axis)
        if size is None or wanted is None:
            raise NoGradient(
                "a ConvTranspose with automatic pads over an unknown size has no gradient here",
                hint="give the pads as numbers, or the input its size",
            )
        total = max(stride * (size - 1) + more + span - wanted, 0)
        half = total // 2
        low, high = (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)
        before.append(low)
        after.append(high)
    return Windows(slid.kernel, slid.strides, slid.dilations, tuple(before), tuple(after))


RULES: dict[str, Any] = {"Conv": _conv, "ConvTranspose": _conv_transpose}
