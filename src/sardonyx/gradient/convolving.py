"""The adjoint of a convolution, in the way that was measured to be the fastest for such sizes."""

from __future__ import annotations

import math

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import refined, reshape
from sardonyx.gradient.windows import Windows


def spread(g: Expr, kernel: Expr, w: Windows, x: Expr, group: int) -> Expr:
    """The adjoint of a convolution: every window's gradient, through the kernel, added where the window read in `x`."""
    inside = all(pad < span for pad, span in zip(w.pads, w.span * 2, strict=True))
    if set(w.strides) == {1} and inside and kernel.sizes is not None:
        return refined(_spread_densely(g, kernel, w, group), x)
    sizes = [x.size(axis) for axis in range(2, x.rank)]
    counts = [g.size(axis) for axis in range(2, g.rank)]
    left = [
        _left(size, count, *rest)
        for size, count, *rest in zip(sizes, counts, w.strides, w.span, w.before, w.after, strict=True)
    ]
    settings = {
        "strides": list(w.strides),
        "dilations": list(w.dilations),
        "kernel_shape": list(w.kernel),
        "group": group,
    }
    if all(extra is not None and 0 <= extra < stride for extra, stride in zip(left, w.strides, strict=True)):
        padding = [extra or 0 for extra in left]
        return refined(op("ConvTranspose", g, kernel, pads=w.pads, output_padding=padding, **settings), x)
    # The last elements may be in no window, or the last window reach beyond the pads: make enough, then cut.
    enough = op("ConvTranspose", g, kernel, output_padding=[stride - 1 for stride in w.strides], **settings)
    starts = x.build.constant(list(w.before))
    return refined(op("Slice", enough, starts, starts + op("Shape", x, start=2), list(range(2, x.rank))), x)


def _spread_densely(g: Expr, kernel: Expr, w: Windows, group: int) -> Expr:
    """Windows one apart: a convolution with the kernel turned round. Of a transposed one a half runs on one thread."""
    before, after = (
        tuple(span - 1 - pad for pad, span in zip(pads, w.span, strict=True)) for pads in (w.before, w.after)
    )
    turned, slid = _turned(kernel, group), Windows(w.kernel, w.strides, w.dilations, before, after)
    return (
        convolve_as_strip(g, turned, slid)
        if pays_as_strip(g, turned, slid, group)
        else _convolve(g, turned, slid, group)
    )


def _convolve(x: Expr, kernel: Expr, w: Windows, group: int = 1, bias: Expr | None = None) -> Expr:
    """What windows that are one apart read in `x`, through the kernel."""
    settings = {"pads": w.pads, "dilations": list(w.dilations), "kernel_shape": list(w.kernel)}
    return op("Conv", x, kernel, bias, group=group, **settings)


def convolve_as_strip(x: Expr, kernel: Expr, w: Windows, bias: Expr | None = None) -> Expr:
    """The same with the samples laid below each other, with zeros between them, as one picture."""
    channels, height, width = (x.size(axis) or 0 for axis in (1, 2, 3))
    between = max(w.before[0], w.after[0])
    below = op("Pad", op("Transpose", x, perm=[1, 0, 2, 3]), [0, between], x._alike(0), [2])
    strip = _convolve(reshape(below, [1, channels, -1, width]), kernel, w, bias=bias)
    cut = reshape(strip, [kernel.size(0) or 0, -1, height + between, width])
    return op("Transpose", op("Slice", cut, [0], [height], [2]), perm=[1, 0, 2, 3])


def pays_as_strip(x: Expr, kernel: Expr, w: Windows, group: int) -> bool:
    """Whether the samples are better laid below each other.

    They are where a picture has fewer positions than the result has channels: the product over it would be narrow, and
    onnxruntime lays out its windows on one thread. The result must have the picture's size.
    """
    if group > 1 or set(w.strides) != {1} or kernel.sizes is None:
        return False
    sizes = [x.size(axis) for axis in range(1, x.rank)]
    whole = all(low + high == span - 1 for low, high, span in zip(w.before, w.after, w.span, strict=True))
    if x.rank != 4 or None in sizes or not whole or not any(w.pads):
        return False
    return (kernel.size(0) or 0) > math.prod(size or 0 for size in sizes[1:])


def _turned(kernel: Expr, group: int) -> Expr:
    """The kernel with inputs and outputs of each group exchanged, and every spatial axis reversed."""
    assert kernel.sizes is not None, "asked only of kernels of known sizes"
    outputs, inputs, *sizes = kernel.sizes
    places = math.prod(sizes)
    found = reshape(kernel, [group, outputs // group, inputs, places])
    if places > 1:
        found = op("Slice", found, [-1], [-places - 1], [3], [-1])
    return reshape(op("Transpose", found, perm=[0, 2, 1, 3]), [group * inputs, outputs // group, *sizes])


def _left(size: int | None, count: int | None, stride: int, span: int, before: int, after: int) -> int | None:
    """How many elements after the last window no window reads."""
    if size is None or count is None:
        return 0 if stride == 1 else None
    return size + before + after - (count - 1) * stride - span
