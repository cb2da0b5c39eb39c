"""What a head is: the outputs it looks at, and the boxes it gives, as arrays or as values of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from sardonyx.build import Expr
from sardonyx.signature import Array


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

    @property
    def first(self) -> Array:
        return next(iter(self.outputs.values()))

    def only(self, rank: int) -> Array | None:
        """The one output, if it is alone, of this rank and a batch of one."""
        array = self.first
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
