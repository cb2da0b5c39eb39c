"""Which of several right exports to keep: the faster, then the smaller, then the route that comes first."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from sardonyx.convert.candidate import Candidate
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Arrays

RUNS, BUDGET_SECONDS = 12, 1.0
# Medians of a dozen interleaved runs scatter by about this much; less is no difference.
CLEARLY = 0.9


def fastest(candidates: Sequence[Candidate], example: Arrays) -> Candidate | None:
    """The candidate to keep, measured by interleaved runs on the example; None if there is none."""
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    candidates = [c for c in candidates if not c.reason or c.repairs] or candidates
    times = _interleaved([Session(c.model, Settings()) for c in candidates if c.model is not None], example)
    best = min(times)
    close = [c for c, seconds in zip(candidates, times, strict=True) if best >= CLEARLY * seconds]
    return min(close, key=_nodes)


def _interleaved(sessions: Sequence[Session], example: Arrays) -> list[float]:
    """The median time of each session, with their runs taken in turns."""
    times: list[list[float]] = [[] for _ in sessions]
    end = time.perf_counter() + BUDGET_SECONDS
    for turn in range(RUNS + 1):
        for session, taken in zip(sessions, times, strict=True):
            started = time.perf_counter()
            session.run_fitted({spec.name: example[spec.name] for spec in session.signature.inputs})
            if turn:  # the first turn warms up
                taken.append(time.perf_counter() - started)
        if turn and time.perf_counter() > end:
            break
    return [float(np.median(taken)) for taken in times]


def _nodes(candidate: Candidate) -> int:
    assert candidate.model is not None, "a candidate that agrees has a model"
    return sum(len(graph) for graph in candidate.model.ir.graphs()) + candidate.model.weight_bytes()
