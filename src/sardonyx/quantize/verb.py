"""quantize from end to end: prepare, split the data, search, and write what the guard let through."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import registry
from sardonyx.compare.optimizer import doubt_on
from sardonyx.errors import BadData, UsageError
from sardonyx.files import check_target
from sardonyx.model import Model
from sardonyx.quantize import metric as metrics
from sardonyx.quantize import plot, split
from sardonyx.quantize.evaluate import Judge, Reference, is_classifier
from sardonyx.quantize.evening import evened
from sardonyx.quantize.guard import Guard
from sardonyx.quantize.prepare import float_nodes, prepared
from sardonyx.quantize.result import Outcome, report_of, report_without_nodes, write, write_float
from sardonyx.quantize.search import SCHEMES, Search
from sardonyx.quantize.subject import CALIBRATORS, Subject
from sardonyx.report import Report
from sardonyx.run.session import Session, Settings, stored_level
from sardonyx.samples import Samples
from sardonyx.signature import Arrays

# Examples that candidates are screened on: at least these, and more while they take float less than this share of the time.
SCREENED, SCREENED_AT_MOST, SCREENING = 48, 512, 0.02


def quantize_model(
    source: str | Path | Model,
    output: str | Path,
    *,
    data: Any,
    metric: str,
    budget: str | float,
    scheme: str,
    calibrator: str,
    seconds: float,
    batch: int,
    threads: int | None,
    plot_file: str | Path | None,
    seed: int,
) -> Report:
    """The report of the search. The file `output` is written at the end, whatever the verdict, and only then."""
    started = time.monotonic()
    schemes = _known("scheme", scheme, registry.names(SCHEMES))
    _known("calibrator", calibrator, registry.names(CALIBRATORS))
    allowed = metrics.Budget.parse(budget)
    if not seconds > 0:
        raise UsageError(f"cannot search for {seconds:g} seconds", hint="give --time more than 0")
    check_target(output)
    if plot_file is not None:
        registry.need("report", for_what="the plot")
        check_target(plot_file)
    model = Model.load(source)
    ready = prepared(model)
    opened = split.opened(data, model.signature, seed=seed)
    doubt = doubt_on(model, [next(iter(opened.calibration)).inputs])
    level = stored_level(model) if doubt is None else doubt.level
    settings = Settings(threads=threads, rests=True, level=level)
    if not float_nodes(ready):
        write_float(model, Path(output))
        return report_without_nodes(ready, Path(output), allowed)
    float_session = Session(model.path if model.path is not None else model, settings, signature=model.signature)
    screening = _screening(float_session, opened, SCREENING * seconds)
    judge = _judge(metric, allowed, ready, screening, opened, seed)
    judge.score(float_session, screening)  # labels that do not fit the outputs are found out before the work
    feed = _feed(data, model, batch)
    ready = evened(ready, opened.calibration, settings)
    subject = Subject(ready, opened.calibration, settings, calibrator="minmax" if calibrator == "auto" else calibrator)
    held_out = Reference.of(float_session, opened.held_out)
    guard = Guard(float_session, held_out, judge, feed, settings, subject.vnni, seed)
    search = Search(subject, judge, screening, float_session, feed, seconds, calibrator == "auto", seed)
    winner = search.run(schemes, guard)
    outcome = Outcome(model, Path(output), judge, search, winner, opened, guard, time.monotonic() - started)
    write(outcome)
    if plot_file is not None:
        plot.pareto(search.candidates, winner, allowed, plot_file)
    report = report_of(outcome)
    return report if doubt is None else replace(report, findings=(*(report.findings or ()), doubt.finding()))


def _known(what: str, word: str, names: list[str]) -> list[str]:
    if word == "auto":
        return names
    if word not in names:
        raise UsageError(f"there is no {what} '{word}'", hint=f"use auto, {', '.join(names)}")
    return [word]


def _screening(session: Session, data: split.Data, seconds: float) -> Reference:
    """The first examples of the calibration part, as many as float answers in time, with what it says about them."""
    kept, said, count, end = [], [], 0, time.monotonic() + seconds
    for batch in data.calibration:
        kept.append(batch)
        said.append(session.run_fitted(batch.inputs))
        count += batch.examples
        if count >= SCREENED_AT_MOST or (count >= SCREENED and time.monotonic() > end):
            break
    return Reference(tuple(kept), tuple(said))


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
