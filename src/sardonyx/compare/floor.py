"""The spread of one tensor when only its rounding differs, as two numbers: `absolute + relative * |value|`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sardonyx.agreement import CHUNK, unit_roundoff, wide
from sardonyx.signature import Array


@dataclass(frozen=True)
class Floor:
    """The measured noise of a tensor, and the size of its values (root mean square)."""

    absolute: float
    relative: float
    scale: float


def floor_of(reference: Array, twins: Sequence[Array] = ()) -> Floor:
    """The noise of a float tensor, from tensors that should be the same; never less than its type can express.

    The relative part is read off the elements of at least half the largest size, the absolute part is what the others
    need on top of it. NaN and infinities do not count.
    """
    same = [twin for twin in twins if twin.shape == reference.shape]
    unit = unit_roundoff(reference.dtype)
    squares, count, most = 0.0, 0, 0.0
    for size, _ in _parts(reference, same):
        squares, count, most = (
            squares + float(np.sum(size**2)),
            count + size.size,
            max(most, float(size.max(initial=0.0))),
        )
    scale = float(np.sqrt(squares / count)) if count else 0.0
    relative = unit
    for size, error in _parts(reference, same):
        largest = (size >= most / 2) & (size > 0)
        relative = max(relative, float((error[largest] / size[largest]).max(initial=0.0)))
    absolute = unit * scale
    for size, error in _parts(reference, same):
        absolute = max(absolute, float((error - relative * size).max(initial=0.0)))
    return Floor(absolute, relative, scale)


def _parts(reference: Array, twins: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
    """Sizes and errors of the finite elements, some at a time: a large tensor is never copied whole."""
    flat, others = reference.reshape(-1), [twin.reshape(-1) for twin in twins]
    for start in range(0, flat.size, CHUNK):
        values = wide(flat[start : start + CHUNK])
        error = np.zeros_like(values)
        with np.errstate(invalid="ignore"):
            for other in others:
                error = np.maximum(error, np.abs(values - wide(other[start : start + CHUNK])))
        usable = np.isfinite(error) & np.isfinite(values)
        yield np.abs(values[usable]), error[usable]
