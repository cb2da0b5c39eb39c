"""A histogram that is fed piece by piece: its span doubles as values come in, and it never holds more than its bins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sardonyx.signature import Array

BINS = 4096
# Smaller values are zero to any integer scale, and their bins would be narrower than floats can say.
NOTHING = 1e-30


@dataclass
class Histogram:
    """Counts over [-span, span], a power of two, with the exact smallest and largest value that came in."""

    span: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))
    low: float = math.inf
    high: float = -math.inf
    strange: int = 0

    def add(self, values: Array) -> None:
        """Counts finite values; others are only noticed, in `strange`."""
        flat = values.ravel()
        if not flat.size:
            return
        low, high = float(flat.min()), float(flat.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            finite = flat[np.isfinite(flat)]
            self.strange += flat.size - finite.size
            self.add(finite)
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._reach(max(abs(low), abs(high)))
        if self.span:
            places = (flat * np.float32(BINS / 2 / self.span) + np.float32(BINS / 2)).astype(np.int32)
            np.clip(places, 0, BINS - 1, out=places)
            self.counts += np.bincount(places, minlength=BINS)
        else:
            self.counts[BINS // 2] += flat.size

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def centres(self) -> Array:
        """The value in the middle of every bin."""
        edges = np.linspace(-self.span, self.span, BINS + 1)
        return (edges[:-1] + edges[1:]) / 2

    @property
    def width(self) -> float:
        return 2 * self.span / BINS

    def _reach(self, size: float) -> None:
        """Doubles the span until it holds `size`, two bins becoming one each time, so that no count is lost or moved."""
        if size < NOTHING or size <= self.span:
            return
        wanted = 2.0 ** math.ceil(math.log2(size))
        doublings = round(math.log2(wanted / self.span)) if self.span else 0
        for _ in range(min(doublings, BINS.bit_length())):
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([np.zeros(BINS // 4, np.int64), pairs, np.zeros(BINS // 4, np.int64)])
        self.span = wanted
