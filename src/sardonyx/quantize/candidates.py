"""Everything the search tries, with what it found out about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sardonyx.bench.interleave import Ratio
from sardonyx.quantize.evaluate import Score
from sardonyx.quantize.guard import Ruling
from sardonyx.quantize.subject import Variant
from sardonyx.run.session import Session


@dataclass
class Candidate:
    """A variant and its screening; the guard's ruling where it came that far; else the reason why not."""

    name: str
    scheme: str
    variant: Variant | None = None
    score: Score | None = None
    ratio: Ratio | None = None
    ruling: Ruling | None = None
    reason: str = ""
    size: int | None = None
    # Of its outputs from float's, on the data of the search.
    distance: float = 0.0
    # Open only until the candidate has been timed.
    session: Session | None = None

    @property
    def verdict(self) -> str:
        """`passed`, `rejected`, `not-tried` where the scheme does not fit, or `screened` where a faster one passed first."""
        if self.ruling is not None:
            return "passed" if self.ruling.passed else "rejected"
        if self.variant is None:
            return "not-tried"
        return "rejected" if self.reason else "screened"

    @property
    def best_score(self) -> Score | None:
        return self.ruling.score if self.ruling is not None else self.score

    @property
    def best_ratio(self) -> Ratio | None:
        return self.ruling.speedup if self.ruling is not None and self.ruling.speedup is not None else self.ratio

    def to_dict(self) -> dict[str, Any]:
        score, ratio, plan = self.best_score, self.best_ratio, self.variant.plan if self.variant else None
        return {
            "name": self.name,
            "scheme": self.scheme,
            "verdict": self.verdict,
            "reason": self.ruling.reason if self.ruling is not None else self.reason,
            "metric": None if score is None else score.after,
            "before": None if score is None else score.before,
            "data": None if score is None else "search" if self.ruling is None else "held-out",
            "loss": None if score is None else score.loss,
            "speedup": None if ratio is None else ratio.to_dict(),
            "size": self.size,
            "calibrator": self.variant.calibrator if self.variant else None,
            "nodes": None if plan is None else len(plan.nodes),
        }
