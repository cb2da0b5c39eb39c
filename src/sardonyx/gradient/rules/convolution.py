"""Convolution: the input's gradient by the transposed convolution, the weights' by one product with the windows read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.build import Expr, op
from sardonyx.errors import NoGradient
from sardonyx.gradient.shapes import join_sizes, refined, reshape, reshape_like, size_of, swap_last
from sardonyx.gradient.windows import Windows, padded_same, pieces, spread, windows

Sizes = Sequence[int] | None
# Where one way of multiplying becomes faster than another, on AVX2 with one and two threads.
_FEW_COLUMNS, _MANY_ROWS, _MANY_POSITIONS = 64, 32, 64


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
    dx = spread(g, w, slid, x, group) if at.needs(0) else None
    dw = weight_gradient(x, g, w, slid, group) if at.needs(1) else None
    return dx, dw, _sum_spatial(g) if at.needs(2) else None


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

    Of three ways the one that was measured to be the fastest for such sizes.
    """
    inputs, outputs = w.size(1) or 0, (w.size(0) or 0) // group
    counts = [size_of(g, axis) for axis in range(2, g.rank)]
    if inputs * slid.count <= _FEW_COLUMNS and slid.count > 1:
        return _stacked_product(x, g, w, slid, counts, group, inputs, outputs)
    if group == 1 and outputs >= _MANY_ROWS and _positions(g) >= _MANY_POSITIONS:
        parts = _flat_products(x, g, slid, counts, inputs, outputs)
    else:
        parts = _batched_products(x, g, slid, counts, group, inputs, outputs)
    return reshape_like(op("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0], w)


def _stacked_product(
    x: Expr, g: Expr, w: Expr, slid: Windows, counts: list[Expr], group: int, inputs: int, outputs: int
) -> Expr:
    """Few inputs, as colours or one channel per group: all places side by side, in one product that is not too thin."""
    left = reshape(g, join_sizes([size_of(g, 0), group, outputs, -1], g))
    shape = join_sizes([size_of(g, 0), group, inputs, -1], g)
    right = op("Concat", *(reshape(piece, shape) for piece in pieces(x, slid, counts)), axis=2)
    found = op("ReduceSum", left @ swap_last(right), [0], keepdims=0)
    return reshape_like(op("Transpose", reshape(found, [group * outputs, slid.count, inputs]), perm=[0, 2, 1]), w)


def _batched_products(
    x: Expr, g: Expr, slid: Windows, counts: list[Expr], group: int, inputs: int, outputs: int
) -> list[Expr]:
    """Per sample and group, then summed over the samples: [group, outputs, inputs, 1] each."""
    left = reshape(g, join_sizes([size_of(g, 0), group, outputs, -1], g))
    found = []
    for piece in pieces(x, slid, counts):
        right = reshape(piece, join_sizes([size_of(g, 0), group, inputs, -1], g))
        found.append(op("Unsqueeze", op("ReduceSum", left @ swap_last(right), [0], keepdims=0), [-1]))
    return found


def _flat_products(x: Expr, g: Expr, slid: Windows, counts: list[Expr], inputs: int, outputs: int) -> list[Expr]:
    """Many channels: over samples and positions at once, so that no array per sample is made."""
    order = [1, 0, *range(2, g.rank)]
    left = reshape(op("Transpose", g, perm=order), [outputs, -1])
    found = []
    for piece in pieces(op("Transpose", x, perm=order), slid, counts):
        found.append(op("Unsqueeze", op("Gemm", left, reshape(piece, [inputs, -1]), transB=1), [-1]))
    return found


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
