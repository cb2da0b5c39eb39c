"""quantize from end to end: prepare, split the data, search, and write what the guard let through."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import deadline, registry
from sardonyx.bench.interleave import least_seconds, timed
from sardonyx.compare.optimizer import Doubt, doubt_on
from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.errors import BadData, UsageError
from sardonyx.files import check_target
from sardonyx.model import Model
from sardonyx.quantize import metric as metrics
from sardonyx.quantize import plot, split
from sardonyx.quantize.evaluate import Judge, Reference, is_classifier
from sardonyx.quantize.evening import evened
from sardonyx.quantize.guard import Guard
from sardonyx.quantize.prepare import float_nodes, prepared
from sardonyx.quantize.result import Outcome, report_of, report_too_short, report_without_nodes, write, write_float
from sardonyx.quantize.search import SCHEMES, Search
from sardonyx.quantize.subject import CALIBRATORS, Subject
from sardonyx.report import Report
from sardonyx.run.session import Session, Settings, stored_level
from sardonyx.samples import Samples
from sardonyx.signature import Arrays

# Examples that candidates are screened on: at least these, and more while they take float less than this share of the time.
SCREENED, SCREENED_AT_MOST, SCREENING = 48, 512, 0.02
# When, as a share of the time: the data has been looked at, examples to screen on are answered, all is ready for the search.
OPENED, ANSWERED, READY = 0.15, 0.2, 0.45
# Of the time that is left then, so much may be spent on making channels even.
EVENING = 0.15
# The share of the time for the guard's examples: float answers them, and so do this many candidates.
JUDGING, JUDGED = 0.12, 3


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    metric: str
    budget: metrics.Budget
    calibrator: str
    threads: int | None
    seed: int


@dataclass(frozen=True)
class Start:
    """What the search begins with. `available` are the held-out examples that there are, used or not.

    `doubt` is what onnxruntime's optimiser changes of the model's answers.
    """

    subject: Subject
    float_session: Session
    data: split.Data
    available: int
    judge: Judge
    screening: Reference
    held_out: Reference
    feed: Arrays
    doubt: Doubt | None


def quantize_model(
    source: str | Path | Model,
    output: str | Path,
    *,
    data: Any,
    metric: str,
    budget: str | float,
    scheme: str,
    calibrator: str,
    limit: Deadline,
    measuring: float,
    batch: int,
    threads: int | None,
    plot_file: str | Path | None,
    seed: int,
) -> Report:
    """The report of the search. The file `output` is written at the end, whatever the verdict, and only then.

    `limit` ends everything; shares of the seconds `measuring` are what it is worthwhile to time candidates in.
    """
    schemes = _known("scheme", scheme, registry.names(SCHEMES))
    _known("calibrator", calibrator, registry.names(CALIBRATORS))
    wish = Wish(metric, metrics.Budget.parse(budget), calibrator, threads, seed)
    if not limit.seconds > 0:
        raise UsageError(f"cannot search for {limit.seconds:g} seconds", hint="give --time more than 0")
    check_target(output)
    if plot_file is not None:
        registry.need("report", for_what="the plot")
        check_target(plot_file)
    model = Model.load(source)
    try:
        with limit.at(READY).enforced():
            ready = prepared(model)
            opened = split.opened(data, model.signature, seed=seed, limit=limit.at(OPENED))
            if not float_nodes(ready):
                write_float(model, Path(output))
                return report_without_nodes(ready, Path(output), wish.budget)
            start = _start(model, ready, opened, _feed(data, model, batch), wish, limit)
        reason = _too_slow(start, limit)
    except OutOfTime:
        reason = "to prepare the model, and to let it answer some of the data, takes longer"
    if reason:
        write_float(model, Path(output))
        return report_too_short(Path(output), wish.budget, limit, reason)
    outcome = _searched(model, Path(output), start, schemes, wish, limit, measuring)
    write(outcome)
    if plot_file is not None:
        plot.pareto(outcome.search.candidates, outcome.winner, wish.budget, plot_file)
    report, doubt = report_of(outcome), start.doubt
    return report if doubt is None else replace(report, findings=(*(report.findings or ()), doubt.finding()))


def _start(model: Model, ready: Model, opened: split.Data, feed: Arrays, wish: Wish, limit: Deadline) -> Start:
    """The data answered by float, as much of it as there is time for, and the model made even."""
    doubt = doubt_on(model, [next(iter(opened.calibration)).inputs])
    level = stored_level(model) if doubt is None else doubt.level
    settings = Settings(threads=wish.threads, rests=True, level=level)
    float_session = Session(model.path if model.path is not None else model, settings, signature=model.signature)
    screening, each = _screening(float_session, opened, SCREENING * limit.seconds, limit.at(ANSWERED))
    judge = _judge(wish.metric, wish.budget, ready, screening, opened, wish.seed)
    judge.score_of(screening.outputs, screening)  # labels that do not fit the outputs are found out before the work
    available = opened.held_out_examples
    opened = opened.judged_by(int(JUDGING * limit.seconds / (1 + JUDGED) / each), seed=wish.seed)
    held_out = Reference.of(float_session, opened.held_out)
    evening = limit.share(EVENING)
    even = evening.attempt(lambda: evened(ready, opened.calibration, settings, limit=evening.share(0.5)), ready)
    subject = Subject(
        even, opened.calibration, settings,
        calibrator="minmax" if wish.calibrator == "auto" else wish.calibrator, limit=limit,
    )  # fmt: skip
    return Start(subject, float_session, opened, available, judge, screening, held_out, feed, doubt)


def _too_slow(start: Start, limit: Deadline) -> str:
    """Why no candidate could be timed beside float, once for the search and once for the guard; empty if it can."""
    once = float(timed(lambda: start.float_session.run_fitted(start.feed))(2).min())
    needed = 2 * least_seconds(2 * once)
    if limit.allows(needed):
        return ""
    return f"a call of the float model takes {once:.3g} s, and to compare another with it {needed:.3g} s"


def _searched(
    model: Model, output: Path, start: Start, schemes: list[str], wish: Wish, limit: Deadline, measuring: float
) -> Outcome:
    guard = Guard(
        start.float_session, start.held_out, start.judge, start.feed, start.subject.settings, start.subject.vnni,
        wish.seed,
    )  # fmt: skip
    search = Search(
        start.subject, start.judge, start.screening, start.float_session, start.feed, limit, measuring,
        wish.calibrator == "auto", wish.seed,
    )  # fmt: skip
    winner = search.run(schemes, guard)
    return Outcome(model, output, start.judge, search, winner, start.data, start.available, guard, limit)


def _known(what: str, word: str, names: list[str]) -> list[str]:
    if word == "auto":
        return names
    if word not in names:
        raise UsageError(f"there is no {what} '{word}'", hint=f"use auto, {', '.join(names)}")
    return [word]


def _screening(session: Session, data: split.Data, seconds: float, limit: Deadline) -> tuple[Reference, float]:
    """The first examples of the calibration part, as many as float answers in time, with what it says about them.

    And the seconds that it took for one.
    """
    kept, said, count, started = [], [], 0, time.monotonic()
    for batch in data.calibration:
        deadline.check()
        kept.append(batch)
        said.append(session.run_fitted(batch.inputs))
        count += batch.examples
        passed = time.monotonic() - started
        if count >= SCREENED_AT_MOST or (count >= SCREENED and passed > seconds) or limit.passed:
            break
    return Reference(tuple(kept), tuple(said)), max(passed, 1e-9) / count


def _judge(name: str, budget: metrics.Budget, model: Model, screening: Reference, data: split.Data, seed: int) -> Judge:
    label = screening.batches[0].label
    if label is not None and label.dtype.kind in "OUS":
        raise BadData("the labels are text, and the model gives scores", hint="number the classes from 0, in its order")
    chosen = metrics.chosen(
        name,
        labelled=data.labelled,
        classifier=is_classifier(model, screening.outputs[0]),
        integer_labels=label is not None and np.asarray(label).dtype.kind in "iub",
        label_hint=data.calibration.samples.label_hint,
    )
    return Judge(chosen, budget, seed)


def _feed(data: Any, model: Model, batch: int) -> Arrays:
    """What is timed: one batch of the size that the model will meet."""
    return next(iter(Samples.open(data, model.signature, batch=batch))).inputs
