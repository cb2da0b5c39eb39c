"""Everything that was seen, outliers too."""

from __future__ import annotations

from sardonyx.quantize.histogram import Histogram


def limits(histogram: Histogram) -> tuple[float, float]:
    """The smallest and the largest value."""
    return histogram.low, histogram.high
