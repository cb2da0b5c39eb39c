"""The ratio of two variants that were measured in pairs, with an interval that a busy machine does not fool.

Whatever else the machine does can only make a call slower, so a variant's speed shows in its undisturbed calls: their lower
quartile, which holds while up to three calls in four are disturbed. It is taken over a stretch of neighbouring rounds, and
the ratio inside that stretch, so that drift cancels. The stretches are long enough not to share a busy moment with the
next, which makes them the independent observations that a bootstrap needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sardonyx.errors import UsageError
from sardonyx.signature import Array

Verdict = Literal["faster", "slower", "no-difference"]

# The ratio of a model to itself moves by up to 2.4 % from one run of one thread to the next (benchmarks/stability.py
# shows that spread). Less than this is no difference that anyone could rely on.
MARGIN = 0.03
STRETCHES, RESAMPLES = 12, 1000
_Z = 1.959964


@dataclass(frozen=True)
class Ratio:
    """How many times faster, with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """`faster` or `slower` only where the whole interval lies beyond the margin."""
        if self.low > 1 + MARGIN:
            return "faster"
        return "slower" if self.high < 1 / (1 + MARGIN) else "no-difference"

    @property
    def decided(self) -> bool:
        """Whether the interval lies wholly on one side of each edge, so that more rounds would not change the verdict."""
        return not any(self.low <= edge <= self.high for edge in (1 + MARGIN, 1 / (1 + MARGIN)))

    def to_dict(self) -> dict[str, float | str]:
        return {"ratio": self.ratio, "low": self.low, "high": self.high, "verdict": self.verdict}

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ({self.low:.2f} to {self.high:.2f})"


def speedup(of: Array, to: Array) -> Ratio:
    """How many times faster `to` is than `of`: seconds of the same rounds, paired by index."""
    if of.shape != to.shape or of.ndim != 1 or of.size < 2:
        raise UsageError(f"cannot pair {of.shape} with {to.shape} rounds", hint="give two rounds or more of each")
    logs = np.log(_stretches(of)) - np.log(_stretches(to))
    middle = float(centre(logs))
    drawn = centre(logs[np.random.default_rng(0).integers(0, logs.size, (RESAMPLES, logs.size))])
    # A dozen values vary less among themselves than the world they come from: Student's widening for what was not seen.
    low, high = middle + _student(logs.size) * (np.quantile(drawn, (0.025, 0.975)) - middle)
    return Ratio(math.exp(middle), math.exp(min(low, middle)), math.exp(max(high, middle)))


def undisturbed(values: Array) -> float:
    """The lower quartile."""
    return float(np.quantile(values, 0.25))


def centre(values: Array) -> Array:
    """The mean of the middle half along the last axis."""
    size = values.shape[-1]
    cut = size // 4
    ordered = np.partition(values, (cut, size - cut - 1), axis=-1)
    middle: Array = ordered[..., cut : size - cut].mean(axis=-1)
    return middle


def _stretches(rounds: Array) -> Array:
    return np.array([undisturbed(part) for part in np.array_split(rounds, min(STRETCHES, rounds.size))])


def _student(count: int) -> float:
    """Student's quantile over the normal one, and the lost degree of freedom, by the Cornish-Fisher expansion."""
    free = count - 1
    quantile = _Z + (_Z**3 + _Z) / (4 * free) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * free**2)
    return quantile / _Z * math.sqrt(count / free)
