"""The range whose 256 levels tell least apart from the real distribution (Kullback-Leibler divergence)."""

from __future__ import annotations

import numpy as np

from sardonyx.quantize.calibrators._cuts import LEVELS, cheapest
from sardonyx.quantize.histogram import Histogram
from sardonyx.signature import Array


def limits(histogram: Histogram) -> tuple[float, float]:
    """The cut with the least divergence."""
    return cheapest(histogram, _divergence)


def _divergence(histogram: Histogram, low: float, high: float) -> float:
    """How much is lost when the values, clipped to the range, are spread evenly over the bins of their level."""
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    counts[np.abs(centres) <= histogram.width] = 0  # zero is exact in every range, and often most of the values
    inside = (centres >= low - histogram.width / 2) & (centres <= high + histogram.width / 2)
    if not inside.any():
        return float("inf")
    clipped = counts[inside].copy()
    places = np.flatnonzero(inside)
    clipped[0] += counts[: places[0]].sum()
    clipped[-1] += counts[places[-1] + 1 :].sum()
    levels = np.clip(((centres[inside] - low) / max(high - low, 1e-30) * LEVELS).astype(int), 0, LEVELS - 1)
    return _kl(clipped, _evened(counts[inside], levels))


def _evened(counts: Array, levels: Array) -> Array:
    """Each level's count shared among those of its bins that hold anything."""
    filled = counts > 0
    mass = np.bincount(levels, counts, LEVELS)
    bins = np.maximum(np.bincount(levels, filled, LEVELS), 1)
    return np.where(filled, (mass / bins)[levels], 0)


def _kl(real: Array, rough: Array) -> float:
    p, q = real / max(real.sum(), 1), rough / max(rough.sum(), 1)
    # A bin that only clipping fills is as unlikely as one value would be.
    q = np.maximum(q, 0.5 / max(real.sum(), 1))
    held = p > 0
    return float((p[held] * np.log(p[held] / q[held])).sum())
