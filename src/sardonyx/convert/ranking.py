"""Which of several right exports to keep: the faster, then the smaller, then the route that comes first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sardonyx.bench.interleave import measure, speedup, timed
from sardonyx.bench.ratio import centre
from sardonyx.convert.candidate import Candidate
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Arrays

# For all candidates together: what this cannot tell apart is no reason to choose.
SECONDS = 0.3


def fastest(candidates: Sequence[Candidate], example: Arrays) -> Candidate | None:
    """The candidate to keep, measured by interleaved runs on the example; None if there is none."""
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    candidates = [c for c in candidates if not c.reason or c.repairs] or candidates
    turns = {str(place): timed(_call(candidate, example)) for place, candidate in enumerate(candidates)}
    found = measure(turns, seconds=SECONDS, enough=1.0)
    if not found.comparable:  # a call takes too long to be repeated
        return min(candidates, key=_nodes)
    times = found.rounds
    best = min(times.values(), key=lambda rounds: float(centre(rounds)))
    close = [
        c for c, rounds in zip(candidates, times.values(), strict=True) if speedup(rounds, best).verdict != "faster"
    ]
    return min(close, key=_nodes)


def _call(candidate: Candidate, example: Arrays) -> partial[Arrays]:
    assert candidate.model is not None, "a candidate that agrees has a model"
    session = Session(candidate.model, Settings(rests=True))
    return partial(session.run_fitted, {spec.name: example[spec.name] for spec in session.signature.inputs})


def _nodes(candidate: Candidate) -> int:
    assert candidate.model is not None, "a candidate that agrees has a model"
    return sum(len(graph) for graph in candidate.model.ir.graphs()) + candidate.model.weight_bytes()
