"""Resize is linear along each axis: its matrix is what it makes of the identity, and the gradient is its transpose's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.errors import NoGradient
from sardonyx.gradient.shapes import join_sizes, refined, size_of, transpose


def _resize(
    g: Expr, y: Expr, x: Expr, roi: Expr | None, scales: Expr | None, sizes: Expr | None, *, axes: Sequence[int] | None,
    antialias: int, coordinate_transformation_mode: str, cubic_coeff_a: float, exclude_outside: int,
    mode: str, nearest_mode: str, keep_aspect_ratio_policy: str,
) -> Expr:  # fmt: skip
    if coordinate_transformation_mode == "tf_crop_and_resize" or (
        sizes is not None and keep_aspect_ratio_policy != "stretch"
    ):
        raise NoGradient("this Resize crops or keeps the aspect ratio, which has no gradient here", hint="stretch it")
    settings = {
        "antialias": antialias or None, "coordinate_transformation_mode": coordinate_transformation_mode,
        "cubic_coeff_a": cubic_coeff_a, "exclude_outside": exclude_outside, "mode": mode, "nearest_mode": nearest_mode,
    }  # fmt: skip
    chosen = [axis % x.rank for axis in axes] if axes is not None else list(range(x.rank))
    for position, axis in enumerate(chosen):
        if _untouched(x, y, scales, position, axis):
            continue
        matrix = _matrix(x, scales, sizes, position, axis, settings)
        order = [other for other in range(x.rank) if other != axis] + [axis]
        back = [order.index(other) for other in range(x.rank)]
        g = transpose(transpose(g, order) @ matrix, back)
    return refined(g, x)


def _untouched(x: Expr, y: Expr, scales: Expr | None, position: int, axis: int) -> bool:
    known = None if scales is None else scales.constant
    if known is not None:
        return bool(known[position] == 1)
    return x.shape is not None and y.shape is not None and x.shape[axis] is not None and x.shape[axis] == y.shape[axis]


def _matrix(
    x: Expr, scales: Expr | None, sizes: Expr | None, position: int, axis: int, settings: dict[str, Any]
) -> Expr:
    """[size after, size before]: the identity, resized along its rows."""
    size = size_of(x, axis)
    blank = op("ConstantOfShape", join_sizes([size, size], x), value=ir.tensor([0.0], dtype=ir.DataType.FLOAT))
    identity = op("Unsqueeze", op("EyeLike", blank, dtype=int(x.dtype)), [0, 1])
    if scales is not None:
        one = scales.build.constant([1], scales.dtype)
        mine = op("Slice", scales, [position], [position + 1], [0])
        resized = op("Resize", identity, None, op("Concat", one, one, mine, one, axis=0), **settings)
    else:
        assert sizes is not None
        mine = op("Slice", sizes, [position], [position + 1], [0])
        resized = op("Resize", identity, None, None, join_sizes([1, 1, mine, size], x), **settings)
    return op("Squeeze", resized, [0, 1])


RULES: dict[str, Any] = {"Resize": (_resize, None, None, None)}
