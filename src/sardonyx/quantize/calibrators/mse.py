"""The range with the least mean squared error: rounding inside against clipping outside."""

from __future__ import annotations

import numpy as np

from sardonyx.quantize.calibrators._cuts import LEVELS, cheapest
from sardonyx.quantize.histogram import Histogram


def limits(histogram: Histogram) -> tuple[float, float]:
    """The cut that changes the values least."""
    return cheapest(histogram, _error)


def _error(histogram: Histogram, low: float, high: float) -> float:
    centres, counts = histogram.centres, histogram.counts
    step = max((high - low) / (LEVELS - 1), float(np.finfo(np.float32).tiny))
    clipped = centres - np.clip(centres, low, high)
    # A value inside a step of width s is off by s²/12 on average; zero itself is always exact.
    inside = counts[(centres >= low) & (centres <= high)].sum() - counts[np.abs(centres) <= histogram.width].sum()
    return float((counts * clipped**2).sum() + max(inside, 0) * step**2 / 12)
