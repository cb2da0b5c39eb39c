"""The two-sided guard: a candidate passes only if it keeps the metric on held-out data and is faster in interleaved timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sardonyx.bench.interleave import Ratio, measure, speedup, timed
from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.quantize.evaluate import Judge, Reference, Score
from sardonyx.quantize.fusion import unfused
from sardonyx.quantize.subject import Variant
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Arrays

ACCURACY, SATURATES = "accuracy", "saturates"
SLOWER, NO_VNNI, NOT_FUSED = "slower", "no VNNI on this CPU", "QDQ not fused here"


@dataclass(frozen=True)
class Ruling:
    """What the guard found. An empty reason means that both sides hold; without a ratio speed was not looked at any more."""

    score: Score
    speedup: Ratio | None
    reason: str = ""

    @property
    def passed(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Guard:
    """Judges variants against one float model, on data that no search has seen."""

    float_session: Session
    held_out: Reference
    judge: Judge
    feed: Arrays
    settings: Settings
    vnni: bool
    seed: int = 0

    def rule(self, variant: Variant, *, seconds: float, limit: Deadline) -> Ruling | None:
        """Whether the variant may take the place of float, and if not, why. Timing takes `seconds`.

        None where the limit passes first: then nothing is known.
        """
        try:
            with limit.enforced():
                session = Session(variant.model, self.settings)
                score = self.judge.score(session, self.held_out, interval=True)
        except OutOfTime:
            return None
        if not self.judge.within(score):
            return Ruling(score, None, self._why_wrong(variant, limit))
        turns = {
            name: timed(_caller(one, self.feed)) for name, one in (("float", self.float_session), ("int", session))
        }
        taken = measure(turns, seconds=seconds, seed=self.seed, limit=limit)
        if not taken.comparable:
            return None
        ratio = speedup(taken.rounds["float"], taken.rounds["int"])
        return Ruling(score, ratio, "" if ratio.verdict == "faster" else why_slow(variant, self.vnni, limit))

    def _why_wrong(self, variant: Variant, limit: Deadline) -> str:
        """`saturates` where the same numbers are right when computed in float: then it is the sums of 16 bits that are not."""
        if variant.plan is None or self.vnni:
            return ACCURACY
        try:
            with limit.enforced():
                exact = Session(variant.model, Settings(self.settings.provider, self.settings.threads, optimize=False))
                return SATURATES if self.judge.within(self.judge.score(exact, self.held_out)) else ACCURACY
        except OutOfTime:
            return ACCURACY


def why_slow(variant: Variant, vnni: bool, limit: Deadline) -> str:
    """Why a variant on integers does not pay on this machine. What is fused is looked at where there is time."""
    if _is_unfused(variant, limit):
        return NOT_FUSED
    return NO_VNNI if variant.scheme.startswith(("static", "dynamic")) and not vnni else SLOWER


def _is_unfused(variant: Variant, limit: Deadline) -> bool:
    if variant.plan is None:
        return False
    try:
        with limit.enforced():
            return bool(unfused(variant.model, variant.plan.nodes))
    except OutOfTime:
        return False


def _caller(session: Session, feed: Arrays) -> Callable[[], object]:
    return lambda: session.run_fitted(feed)
