"""Which of several right exports to keep: the one that lost no path, then the closer, then the faster, then the smaller."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sardonyx.bench.interleave import measure, speedup, timed
from sardonyx.bench.ratio import centre
from sardonyx.convert.contender import Contender
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Arrays

# For all candidates together: what this cannot tell apart is no reason to choose.
SECONDS = 0.3
# A route with more than so many times another's error loses to it. Errors below one measured rounding count as that:
# a tolerance is sixteen of them.
CLOSER, ONE_ROUNDING = 10.0, 1 / 16


def best(contenders: Sequence[Contender], example: Arrays) -> Contender | None:
    """The export to keep; None if there is none. Speed, measured by interleaved runs on the example, comes last."""
    remaining = closest(keeping_paths(contenders))
    remaining = [c for c in remaining if not c.candidate.reason or c.candidate.repairs] or remaining
    if len(remaining) < 2:
        return remaining[0] if remaining else None
    turns = {str(place): timed(_call(contender, example)) for place, contender in enumerate(remaining)}
    found = measure(turns, seconds=SECONDS, enough=1.0)
    if not found.comparable:  # a call takes too long to be repeated
        return min(remaining, key=_nodes)
    times = found.rounds
    fastest = min(times.values(), key=lambda rounds: float(centre(rounds)))
    close = [
        c for c, rounds in zip(remaining, times.values(), strict=True) if speedup(rounds, fastest).verdict != "faster"
    ]
    return min(close, key=_nodes)


def keeping_paths(contenders: Sequence[Contender]) -> Sequence[Contender]:
    """Those whose exporter reported no decision on values that it froze, where there are any."""
    return [c for c in contenders if not c.exported.notes.get("frozen")] or contenders


def closest(contenders: Sequence[Contender]) -> Sequence[Contender]:
    """Those whose error is not ten times that of another."""
    least = max(min((c.used for c in contenders), default=0.0), ONE_ROUNDING)
    return [c for c in contenders if c.used <= CLOSER * least]


def _call(contender: Contender, example: Arrays) -> partial[Arrays]:
    session = Session(contender.model, Settings(rests=True))
    return partial(session.run_fitted, {spec.name: example[spec.name] for spec in session.signature.inputs})


def _nodes(contender: Contender) -> int:
    return sum(len(graph) for graph in contender.model.ir.graphs()) + contender.model.weight_bytes()
