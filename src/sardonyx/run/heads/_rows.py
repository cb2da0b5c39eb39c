"""Rows of numbers as boxes and scores, twice: of arrays, and written with operators."""

from __future__ import annotations

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.signature import Array


def corners(boxes: Array) -> Array:
    """Centre and size as two corners."""
    half = boxes[:, 2:4] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def best(scores: Array) -> tuple[Array, Array]:
    """The best score of each row and its class."""
    return scores.max(axis=1), scores.argmax(axis=1).astype(np.int64)


def columns(values: Expr, start: int, end: int) -> Expr:
    """Some columns of a matrix."""
    return op("Slice", values, [start], [end], [1])


def written_corners(boxes: Expr) -> Expr:
    centre, half = columns(boxes, 0, 2), columns(boxes, 2, 4) / 2.0
    return op("Concat", centre - half, centre + half, axis=1)


def written_best(scores: Expr) -> tuple[Expr, Expr]:
    return reduced("ReduceMax", scores, 1), op("ArgMax", scores, axis=1, keepdims=0)


def reduced(operator: str, values: Expr, axis: int, *, keep: bool = False) -> Expr:
    """A reduction over one axis: the axes became an input in opset 13 for sums and in 18 for the others."""
    if values.build.opset >= (13 if operator == "ReduceSum" else 18):
        return op(operator, values, [axis], keepdims=int(keep))
    return op(operator, values, axes=[axis], keepdims=int(keep))


def matrix(values: Expr, width: int) -> Expr:
    """The rows of a batch of one, in float32."""
    flat = op("Reshape", values, [-1, width])
    return op("Cast", flat, to=1)
