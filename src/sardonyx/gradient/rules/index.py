"""Gather and scatter: what was read from a place is added there, what was written to a place is read from it."""

from __future__ import annotations

from typing import Any

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import INT64, cast, iota_like, reshape, scatter_add, transpose, zeros_like

Triple = tuple[Expr, None, Expr]


def _gather(g: Expr, y: Expr, x: Expr, indices: Expr, *, axis: int) -> Expr:
    """Rows of the gradient added into zeros; the axis goes first for that, and back."""
    axis %= x.rank
    known, size = indices.constant, x.size(axis)
    if known is not None and not indices.rank and size and axis < x.rank - 1:
        place = int(known) % size  # one row that is known: zeros before and behind it
        return op("Pad", op("Unsqueeze", g, [axis]), [place, size - 1 - place], x._alike(0), [axis])
    places = op("Unsqueeze", indices, [-1]) if indices.rank else reshape(indices, [1, 1])
    if not indices.rank:
        g = op("Unsqueeze", g, [axis])
    width = max(indices.rank, 1)
    index_axes = list(range(axis, axis + width))
    rest = [other for other in range(g.rank) if other not in index_axes]
    target = [axis, *(other for other in range(x.rank) if other != axis)]
    zeros = transpose(zeros_like(x), target) if axis else zeros_like(x)
    places = places if places.dtype == INT64 else op("Cast", places, to=int(INT64))
    added = op("ScatterND", zeros, places, transpose(g, [*index_axes, *rest]), reduction="add")
    return transpose(added, [target.index(position) for position in range(x.rank)])


def _gather_nd(g: Expr, y: Expr, x: Expr, indices: Expr, *, batch_dims: int) -> Expr:
    if batch_dims:
        return scatter_add(g, op("GatherND", iota_like(x), indices, batch_dims=batch_dims), x)
    return op("ScatterND", zeros_like(x), indices, g, reduction="add")


def _gather_elements(g: Expr, y: Expr, x: Expr, indices: Expr, *, axis: int) -> Expr:
    return op("ScatterElements", zeros_like(x), indices, g, axis=axis, reduction="add")


def _scatter_elements(g: Expr, y: Expr, x: Expr, i: Expr, u: Expr, *, axis: int, reduction: str) -> Triple:
    return _scattered(
        g, y, x, u, reduction,
        read=lambda t: op("GatherElements", t, i, axis=axis),
        write=lambda t, v: op("ScatterElements", t, i, v, axis=axis),
        add=lambda t, v: op("ScatterElements", t, i, v, axis=axis, reduction="add"),
    )  # fmt: skip


def _scatter_nd(g: Expr, y: Expr, x: Expr, i: Expr, u: Expr, *, reduction: str) -> Triple:
    return _scattered(
        g, y, x, u, reduction,
        read=lambda t: op("GatherND", t, i),
        write=lambda t, v: op("ScatterND", t, i, v),
        add=lambda t, v: op("ScatterND", t, i, v, reduction="add"),
    )  # fmt: skip


def _scattered(g: Expr, y: Expr, x: Expr, u: Expr, reduction: str, *, read: Any, write: Any, add: Any) -> Triple:
    if reduction == "add":
        return g, None, read(g)
    if reduction == "mul":
        return g * y / x, None, read(g * y) / u
    if reduction in ("max", "min"):
        # In equal parts to what attains the extreme: the old value and any update.
        old, new = cast(x.equals(y), g), cast(u.equals(read(y)), g)
        share = g / add(old, new)
        return share * old, None, read(share) * new
    return write(g, zeros_like(u)), None, read(g)


def _top_k(g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr, k: Expr, *, axis: int) -> Expr | None:
    if g[0] is None:
        return None
    return op("ScatterElements", zeros_like(x), y[1], g[0], axis=axis)


def _compress(g: Expr, y: Expr, x: Expr, condition: Expr, *, axis: int | None) -> Expr:
    return scatter_add(g, op("Compress", iota_like(x), condition, axis=axis), x)


def _one_hot(g: Expr, y: Expr, indices: Expr, depth: Expr, values: Expr, *, axis: int) -> tuple[Expr | None, ...]:
    hot = op("OneHot", indices, depth, g.build.constant([0, 1], g.dtype), axis=axis)
    parts = [op("ReduceSum", part, keepdims=0) for part in (g * (1 - hot), g * hot)]
    return None, None, op("Concat", *(reshape(part, [1]) for part in parts), axis=0)


RULES: dict[str, Any] = {
    "Gather": (_gather, None),
    "GatherND": (_gather_nd, None),
    "GatherElements": (_gather_elements, None),
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TopK": _top_k,
    "Compress": (_compress, None),
    "OneHot": _one_hot,
}

ZERO = {"NonMaxSuppression"}
