"""Percentiles of the calls of a variant, with intervals, and its throughput."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.signature import Array

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
BLOCKS, RESAMPLES = 20, 200
# Beyond this many calls every few are looked at for the intervals: they grow no narrower that anyone could see.
CALLS_AT_MOST = 20_000


def latency(calls: Array, examples: int) -> dict[str, Any]:
    """Seconds of a call at each percentile, their 95 % intervals, and examples in a second."""
    values = np.quantile(calls, list(PERCENTILES.values()))
    drawn = _drawn(calls[:: max(1, calls.size // CALLS_AT_MOST)])
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    intervals = {
        name: [min(float(a), float(v)), max(float(b), float(v))]
        for name, a, b, v in zip(PERCENTILES, low, high, values, strict=True)
    }
    return {
        **dict(zip(PERCENTILES, map(float, values), strict=True)),
        "intervals": intervals,
        "throughput": examples * calls.size / float(calls.sum()),
        "calls": int(calls.size),
    }


def _drawn(calls: Array) -> Array:
    """The percentiles of series made of random blocks: calls that follow each other share their busy moments."""
    blocks = np.array_split(calls, min(BLOCKS, calls.size))
    chosen = np.random.default_rng(0).integers(0, len(blocks), (RESAMPLES, len(blocks)))
    return np.array(
        [np.quantile(np.concatenate([blocks[i] for i in row]), list(PERCENTILES.values())) for row in chosen]
    )
