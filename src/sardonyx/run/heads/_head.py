"""What every head shares: the outputs it looks at, the boxes it gives, and the grid that the YOLO family predicts on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.signature import Array

# The strides of the grids that the family predicts on, with the larger models' fourth.
STRIDES = ((8, 16, 32), (8, 16, 32, 64))


class Sure(IntEnum):
    """How well outputs fit a head."""

    NO = 0
    POSSIBLY = 1
    CERTAINLY = 2


@dataclass(frozen=True)
class Raw:
    """The outputs of one run, the size of the picture that went in, and how many labels there are, if that is known."""

    outputs: Mapping[str, Array]
    height: int
    width: int
    labels: int | None = None

    def only(self, rank: int) -> Array | None:
        """The one output, if it is alone, of this rank and a batch of one."""
        array = next(iter(self.outputs.values()))
        fits = (
            len(self.outputs) == 1 and isinstance(array, np.ndarray) and array.ndim == rank and array.dtype.kind == "f"
        )
        return array if fits and (rank == 2 or array.shape[0] == 1) else None


@dataclass(frozen=True)
class Boxes:
    """x0, y0, x1, y1 in pixels of the input, a score and a class each; `classes` is how many there can be, if known."""

    boxes: Array
    scores: Array
    labels: Array
    classes: int | None


@dataclass(frozen=True)
class Written:
    """The same as values of a graph: float32[n,4], float32[n] and int64[n]."""

    boxes: Expr
    scores: Expr
    labels: Expr


class Head(Protocol):
    """A file of this folder. Where `SUPPRESSED` is true, the model has done the non-maximum suppression itself."""

    SUPPRESSED: bool
    SHAPES: str

    def can(self, raw: Raw) -> bool:
        """Whether the outputs have the structure that `decode` needs."""

    def fits(self, raw: Raw) -> Sure:
        """How well values and sizes speak for it, of outputs that it can decode."""

    def decode(self, raw: Raw) -> Boxes: ...

    def write(self, outputs: Mapping[str, Expr], raw: Raw) -> Written: ...


def grids(raw: Raw, rows: int) -> tuple[int, ...] | None:
    """The strides whose grids together have this many cells."""
    return next((strides for strides in STRIDES if _count(raw, strides) == rows), None)


def _count(raw: Raw, strides: tuple[int, ...]) -> int:
    return sum(-(-raw.height // stride) * -(-raw.width // stride) for stride in strides)


def cells(raw: Raw, strides: tuple[int, ...]) -> Array:
    """x, y and stride of every cell of the grids, in the order that the family writes them."""
    parts = []
    for stride in strides:
        down, across = np.mgrid[: -(-raw.height // stride), : -(-raw.width // stride)]
        parts.append(np.stack([across.ravel(), down.ravel(), np.full(down.size, stride)], axis=1))
    return np.concatenate(parts).astype(np.float32)


def centred_in_pixels(centres: Array, grid: Array) -> bool:
    """Whether centres are pixels of the picture, near their cells, or offsets from them that wait to be decoded."""
    places = (grid[:, :2] + 0.5) * grid[:, 2:]
    as_pixels = np.median(np.abs(centres - places) / grid[:, 2:])
    as_offsets = np.median(np.abs(centres - 0.5))
    return bool(as_pixels < as_offsets)


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
