"""What quantize writes and says: the model that passed, or float as it was, and the reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from sardonyx.deadline import OUT_OF_TIME, Deadline
from sardonyx.files import copy
from sardonyx.history import step
from sardonyx.measuring import busy, out_of_time
from sardonyx.model import Model
from sardonyx.quantize.candidates import Candidate
from sardonyx.quantize.evaluate import Judge, Score
from sardonyx.quantize.guard import Guard
from sardonyx.quantize.metric import Budget
from sardonyx.quantize.prepare import float_nodes
from sardonyx.quantize.search import Search
from sardonyx.quantize.split import Data
from sardonyx.report import Finding, Report, Table
from sardonyx.run.session import store_level

NO_NODES = "no Conv, MatMul or Gemm with constant float32 weights"
CODES = {
    "few-examples": "The held-out data is too small to be sure that the loss stays within the budget.",
    "no-labels": "The metric compares with the float model, because the data has no labels.",
}


@dataclass(frozen=True)
class Outcome:
    """Everything that the report is made of. `available` are the held-out examples that there are, used or not."""

    model: Model
    output: Path
    judge: Judge
    search: Search
    winner: Candidate | None
    data: Data
    available: int
    guard: Guard
    limit: Deadline


def write(outcome: Outcome) -> None:
    """Writes the winner with its step in the history, or the float model."""
    winner = outcome.winner
    if winner is None or winner.variant is None or winner.ruling is None:
        write_float(outcome.model, outcome.output)
        return
    model = winner.variant.model
    model.ir.metadata_props.update(outcome.model.ir.metadata_props)
    store_level(model, outcome.guard.settings.level or "all")  # at which it was judged and timed
    model.record(
        step(
            "quantize",
            options={"scheme": winner.scheme, "calibrator": winner.variant.calibrator, "seed": outcome.judge.seed},
            metric=outcome.judge.metric.name,
            before=winner.ruling.score.before,
            after=winner.ruling.score.after,
            budget=str(outcome.judge.budget),
        )
    )
    model.save(outcome.output)


def write_float(model: Model, output: Path) -> None:
    """The float model at `output`: the same bytes where it is one file."""
    outside = any(isinstance(value.const_value, ir.ExternalTensor) for value in model.ir.graph.initializers.values())
    if model.path is None or outside:
        model.save(output)
    elif not (output.exists() and output.samefile(model.path)):
        copy(model.path, output)


def report_of(outcome: Outcome) -> Report:
    """The report of a search that was held."""
    winner, search = outcome.winner, outcome.search
    score = _score(outcome)
    ratio = winner.best_ratio if winner is not None else None
    reverted = _reverted(outcome)
    fields = {
        "path": str(outcome.output),
        "scheme": winner.scheme if winner is not None else None,
        "candidate": winner.name if winner is not None else None,
        "metric": _metric(outcome, score),
        "speedup": {"ratio": 1.0, "low": 1.0, "high": 1.0} if ratio is None else ratio.to_dict(),
        "reverted": reverted,
        "candidates": [item.to_dict() for item in search.candidates],
        "examples": {
            "calibration": _calibrating(outcome),
            "calibrated": search.subject.calibrated,
            "held_out": outcome.data.held_out_examples,
            "available": outcome.available,
        },
        "seconds": outcome.limit.taken,
        "time": outcome.limit.seconds,
        "others": search.watch.share,
    }
    return Report(
        "quantize",
        "kept-float" if winner is None else "quantized",
        True,
        fields=fields,
        findings=tuple(_findings(outcome, score)),
        tables=(_table(outcome), *_reverted_table(reverted)),
        summary=_summary(outcome, score),
    )


def _untried(output: Path, budget: Budget, reason: str) -> dict[str, Any]:
    """The fields of a report where no scheme was tried."""
    return {
        "path": str(output),
        "scheme": None,
        "metric": {"name": None, "before": None, "after": None, "budget": str(budget)},
        "speedup": {"ratio": 1.0, "low": 1.0, "high": 1.0},
        "reverted": [],
        "candidates": [],
        "reason": reason,
    }


def report_without_nodes(model: Model, output: Path, budget: Budget) -> Report:
    """The report on a model that no scheme has a handle on."""
    held = Counter(node.op_type for node in model.ir.graph).most_common(3)
    what = ", ".join(f"{count} {name}" for name, count in held)
    return Report(
        "quantize",
        "kept-float",
        True,
        fields=_untried(output, budget, NO_NODES),
        findings=(),
        summary=f"{output}  the float model as it was: it has {NO_NODES} (mostly {what})",
    )


def report_too_short(output: Path, budget: Budget, limit: Deadline, why: str) -> Report:
    """The report where the time was over before anything could be tried."""
    reason = f"{limit.seconds:g} s are too few to try anything: {why}"
    return Report(
        "quantize",
        "kept-float",
        True,
        fields={**_untried(output, budget, reason), "seconds": limit.taken, "time": limit.seconds},
        findings=tuple(out_of_time([reason], "give more --time")),
        summary=f"{output}  the float model as it was: {reason}",
    )


def _calibrating(outcome: Outcome) -> int:
    return sum(outcome.data.sizes[index] for index in outcome.data.calibration.chosen)


def _score(outcome: Outcome) -> Score | None:
    heard = [item.ruling for item in outcome.search.candidates if item.ruling is not None]
    if outcome.winner is not None and outcome.winner.ruling is not None:
        return outcome.winner.ruling.score
    return heard[0].score if heard else None


def _metric(outcome: Outcome, score: Score | None) -> dict[str, Any]:
    judge = outcome.judge
    held_out = outcome.guard.held_out
    before = score.before if score is not None else judge.score_of(held_out.outputs, held_out).before
    passed = outcome.winner is not None and score is not None
    return {
        "name": judge.metric.name,
        "against": judge.metric.against,
        "before": before,
        "after": score.after if passed and score is not None else before,
        "budget": str(judge.budget),
        "loss": score.loss if passed and score is not None else 0.0,
        "loss_low": score.low if passed and score is not None else 0.0,
        "loss_high": score.high if passed and score is not None else 0.0,
    }


def _reverted(outcome: Outcome) -> list[dict[str, str]]:
    """The products that stay in float, each with the reason."""
    winner, search = outcome.winner, outcome.search
    products = [node.name or "" for node in float_nodes(search.subject.model)]
    if winner is None:
        return [{"node": name, "reason": _why_not(name, search.candidates)} for name in products]
    if winner.variant is None or winner.variant.plan is None:
        return []
    reasons = search.reverted.get(winner.name, {})
    left = [name for name in products if name not in winner.variant.plan.nodes]
    return [{"node": name, "reason": reasons.get(name, "not part of this variant")} for name in left]


def _why_not(node: str, candidates: list[Candidate]) -> str:
    """What became of the fastest candidate that had this node on integers."""
    plans = [(item, item.variant.plan) for item in candidates if item.variant is not None]
    return _why_nothing([item for item, plan in plans if plan is not None and node in plan.nodes] or candidates)


def _why_nothing(candidates: list[Candidate]) -> str:
    """What became of the fastest candidate."""
    tried = [item for item in candidates if item.best_ratio is not None]
    best = max(tried, key=lambda item: item.best_ratio.ratio if item.best_ratio else 0.0, default=None)
    if best is None:
        late = any(item.reason.startswith(OUT_OF_TIME) for item in candidates)
        return OUT_OF_TIME if late else "nothing could be tried"
    return str(best.to_dict()["reason"]) or "not heard: five others came first"


def _findings(outcome: Outcome, score: Score | None) -> list[Finding]:
    found = []
    if outcome.judge.metric.against == "float":
        found.append(
            Finding(
                "info",
                "no-labels",
                "data",
                f"no labels: {outcome.judge.metric.name} with the float model is what counts",
            )
        )
    if outcome.winner is not None and score is not None and score.high > outcome.judge.budget.amount:
        found.append(
            Finding(
                "warning", "few-examples", "data",
                f"the loss may be up to {score.high:.2%}, beyond the budget of {outcome.judge.budget}",
                f"give more data than {outcome.data.examples} examples to be sure",
            )
        )  # fmt: skip
    late, partly = _late(outcome)
    found += out_of_time([*late, *partly], "give more --time", severity="warning" if late else "info")
    return [*found, *busy(outcome.search.watch.share)]


def _late(outcome: Outcome) -> tuple[list[str], list[str]]:
    """What was not tried for want of time, and what only in part, in words."""
    search, data = outcome.search, outcome.data
    names = [item.name for item in search.candidates if item.reason.startswith(OUT_OF_TIME)]
    late = [f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not tried to the end"] if names else []
    seen, calibrating = search.subject.calibrated, _calibrating(outcome)
    partly = []
    if 0 < seen < calibrating:
        partly.append(f"ranges are of {seen} of {calibrating} examples")
    if data.held_out_examples < outcome.available:
        partly.append(f"the guard judged by {data.held_out_examples} of {outcome.available} held-out examples")
    if data.cut:
        partly.append(f"only the first {data.examples} examples of the data were looked at")
    return late, partly


def _table(outcome: Outcome) -> Table:
    rows = []
    for item in outcome.search.candidates:
        score, ratio = item.best_score, item.best_ratio
        words = item.verdict if not (reason := item.to_dict()["reason"]) else f"{item.verdict}: {reason}"
        speed = None if ratio is None else str(ratio)
        loss = None if score is None else f"{100 * score.loss:.2f} %"
        rows.append((item.name, loss, speed, item.size and f"{item.size / 1e6:.1f} MB", words))
    columns = ("candidate", f"{outcome.judge.metric.name} lost", "times faster", "size", "verdict")
    return Table("candidates", columns, tuple(rows))


def _reverted_table(reverted: list[dict[str, str]]) -> tuple[Table, ...]:
    counts = Counter(item["reason"] for item in reverted)
    rows = tuple((count, reason) for reason, count in counts.items())
    return (Table("nodes left in float", ("nodes", "reason"), rows),) if rows else ()


def _summary(outcome: Outcome, score: Score | None) -> str:
    winner = outcome.winner
    if winner is None or score is None:
        reason = _why_nothing(outcome.search.candidates)
        return f"{outcome.output}  the float model as it was: nothing passed the guard ({reason})"
    return (
        f"{outcome.output}  {winner.name}: {winner.best_ratio} times faster, {outcome.judge.metric.name} "
        f"{score.before:.4g} -> {score.after:.4g} on {outcome.data.held_out_examples} held-out examples"
    )
