"""Nearly everything: the outermost values on each side are cut."""

from __future__ import annotations

import numpy as np

from sardonyx.quantize.histogram import Histogram

KEPT = 0.99995


def limits(histogram: Histogram) -> tuple[float, float]:
    """The range that leaves one value in 20,000 outside, on each side where values lie beyond zero."""
    share = np.cumsum(histogram.counts) / max(histogram.total, 1)
    centres = histogram.centres
    low = float(centres[np.searchsorted(share, 1 - KEPT)]) - histogram.width / 2
    high = float(centres[min(int(np.searchsorted(share, KEPT)), len(centres) - 1)]) + histogram.width / 2
    return max(low, histogram.low), min(high, histogram.high)
