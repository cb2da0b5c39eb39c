"""Outputs whose columns are of quite different size, such as boxes in pixels beside a score: each column has its own rounding.

One tolerance for the whole output would be that of the largest column, and hide whatever is wrong in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.agreement import flatten, is_float, wide
from sardonyx.signature import Array

# Columns are told apart only where one needs less than this share of the largest one's tolerance. Others share theirs.
UNEVEN = 0.01
# An axis with more places is no list of columns that mean different things.
MOST_COLUMNS = 64
# Elements of an answer that are looked at.
MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Columns:
    """The largest rounding that was seen in each column of an output, and its largest number."""

    errors: Array
    sizes: Array

    def merge(self, other: Columns) -> Columns | None:
        """The larger ones of both; None if they are of different width."""
        if self.sizes.shape != other.sizes.shape:
            return None
        return Columns(np.maximum(self.errors, other.errors), np.maximum(self.sizes, other.sizes))

    @property
    def shares(self) -> Array:
        """Of every column its share of the rounding, and at least its share of the size: rounding may be small by luck."""
        return np.maximum(self.errors / (self.errors.max() or 1.0), self.sizes / (self.sizes.max() or 1.0))

    def at(self, answer: Array, measured: float, least: float) -> tuple[float, ...]:
        """The shares of the larger of two tolerances, one that was measured and one that goes by the output's size alone.

        A column may be larger in this answer than in those that were measured. Empty where all columns share one tolerance.
        """
        sizes = _sizes(answer)
        shares = self.shares
        if shares.min() >= UNEVEN or sizes is None or sizes.shape != shares.shape:
            return ()
        most = np.maximum(self.sizes, sizes)
        if not max(measured, least) or not most.max():
            return ()
        rounding = measured * np.maximum(shares, sizes / most.max())
        return tuple(map(float, np.maximum(rounding, least * most / most.max()) / max(measured, least)))


def of_outputs(pairs: Sequence[tuple[Sequence[Any], Sequence[Sequence[Any]]]]) -> dict[int, Columns]:
    """The columns of every flattened output that has some, from answers with their twins, which differ in rounding alone."""
    found: dict[int, Columns | None] = {}
    for answer, twins in pairs:
        others = [[array for _, array in flatten(twin)] for twin in twins]
        for index, (_, array) in enumerate(flatten(answer)):
            one = _columns(array, [other[index] for other in others if index < len(other)])
            known = found.get(index, one)
            found[index] = None if one is None or known is None else one.merge(known)
    return {index: columns for index, columns in found.items() if columns is not None}


def _columns(array: Array, twins: Sequence[Array]) -> Columns | None:
    sizes = _sizes(array)
    if sizes is None:
        return None
    errors = np.zeros_like(sizes)
    for twin in twins:
        if twin.shape == array.shape:
            with np.errstate(invalid="ignore"):
                errors = np.maximum(errors, _largest(wide(array) - wide(twin)))
    return Columns(errors, sizes)


def _sizes(array: Array) -> Array | None:
    """The largest number of each column; None where the last axis is no list of columns."""
    if not is_float(array.dtype) or array.ndim < 2 or not 2 <= array.shape[-1] <= MOST_COLUMNS:
        return None
    return _largest(wide(array)) if 0 < array.size <= MOST_ELEMENTS else None


def _largest(values: Array) -> Array:
    table = np.abs(values).reshape(-1, values.shape[-1])
    return np.asarray(np.max(table, axis=0, initial=0.0, where=np.isfinite(table)))
