"""Ranges to choose from: both ends cut back in proportion, from the whole range down to a small part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sardonyx.quantize.histogram import Histogram

Range = tuple[float, float]
LEVELS = 256


def cheapest(histogram: Histogram, cost: Callable[[Histogram, float, float], float]) -> Range:
    """The cut with the lowest cost; each end is tried on its own after both together."""
    whole = (min(histogram.low, 0.0), max(histogram.high, 0.0))
    best = min(_both(*whole), key=lambda cut: cost(histogram, *cut))
    for ends in (_low_ends, _high_ends):
        best = min(ends(best, whole), key=lambda cut: cost(histogram, *cut))
    return best


def _both(low: float, high: float) -> Iterator[Range]:
    yield from ((low * part, high * part) for part in np.linspace(1, 0.1, 46))


def _low_ends(best: Range, whole: Range) -> Iterator[Range]:
    yield best
    yield from ((whole[0] * part, best[1]) for part in np.linspace(1, 0.1, 19) if whole[0])


def _high_ends(best: Range, whole: Range) -> Iterator[Range]:
    yield best
    yield from ((best[0], whole[1] * part) for part in np.linspace(1, 0.1, 19) if whole[1])
