"""Reductions: the gradient goes back to every element that was reduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import cast, count_of, expand_like, reshape, where

Part = Callable[[Expr, Expr, Expr], Expr]


def _restored(value: Expr, x: Expr, axes: Expr | None, keepdims: int, noop: int) -> Expr:
    """A reduced value with the axes that the reduction took away, each of size one."""
    if keepdims or _untouched(axes, noop):
        return value
    if axes is None or (axes.size(0) == 0):
        return reshape(value, [1] * x.rank)
    return op("Unsqueeze", value, axes)


def _untouched(axes: Expr | None, noop: int) -> bool:
    return bool(noop) and (axes is None or axes.size(0) == 0)


def _rule(part: Part) -> Callable[..., Expr]:
    """A rule from the gradient of one element, given g and y where they were reduced from."""

    def rule(
        g: Expr, y: Expr, x: Expr, axes: Expr | None = None, *, keepdims: int, noop_with_empty_axes: int | None
    ) -> Expr:
        noop = noop_with_empty_axes or 0
        return part(_restored(g, x, axes, keepdims, noop), _restored(y, x, axes, keepdims, noop), x)

    return rule


def _mean(
    g: Expr, y: Expr, x: Expr, axes: Expr | None = None, *, keepdims: int, noop_with_empty_axes: int | None
) -> Expr:
    noop = noop_with_empty_axes or 0
    if _untouched(axes, noop):
        return g
    known = None if axes is None else axes.constant
    if axes is not None and known is None:
        count: Expr | float = cast(op("Div", op("Size", x), op("Size", y)), g)
    else:
        count = count_of(x, None if known is None or known.size == 0 else [int(axis) for axis in np.ravel(known)], g)
    return expand_like(_restored(g / count, x, axes, keepdims, noop), x)


def _extreme(
    g: Expr, y: Expr, x: Expr, axes: Expr | None = None, *, keepdims: int, noop_with_empty_axes: int | None
) -> Expr:
    """In equal parts to the elements that attain the extreme."""
    noop = noop_with_empty_axes or 0
    hit = cast(x.equals(_restored(y, x, axes, keepdims, noop)), g)
    if _untouched(axes, noop):
        return g
    hits = op("ReduceSum", hit, axes, keepdims=1)
    return hit * (_restored(g, x, axes, keepdims, noop) / hits)


def _product(
    g: Expr, y: Expr, x: Expr, axes: Expr | None = None, *, keepdims: int, noop_with_empty_axes: int | None
) -> Expr:
    """The product of the others: by division, and where one element is zero, by leaving it out."""
    noop = noop_with_empty_axes or 0
    if _untouched(axes, noop):
        return g
    zero = x.equals(0)
    rest = where(zero, 1, x)
    zeros = op("ReduceSum", cast(zero, x), axes, keepdims=1)
    others = op("ReduceProd", rest, axes, keepdims=1) / rest
    alone = where(zeros.equals(0) | (zero & zeros.equals(1)), others, 0)
    return _restored(g, x, axes, keepdims, noop) * alone


def _l2(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * x / where(y.equals(0), 1, y)


RULES: dict[str, Any] = {
    "ReduceSum": _rule(lambda g, y, x: expand_like(g, x)),
    "ReduceMean": _mean,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ReduceProd": _product,
    "ReduceL1": _rule(lambda g, y, x: g * op("Sign", x)),
    "ReduceL2": _rule(_l2),
    "ReduceLogSum": _rule(lambda g, y, x: expand_like(g * op("Exp", -y), x)),
    "ReduceLogSumExp": _rule(lambda g, y, x: g * op("Exp", x - y)),
    "ReduceSumSquare": _rule(lambda g, y, x: g * x * 2),
}

ZERO = {"ArgMax", "ArgMin"}
