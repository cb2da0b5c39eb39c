"""From a trained model to a bundle: each stage in order, what it found, and golden cases to replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sardonyx
from sardonyx import progress
from sardonyx.bundle import page
from sardonyx.bundle.contents import GOLDEN, MODEL, PAGE, RECORD, REPORT, golden_cases, record
from sardonyx.files import replacing_folder, write_text
from sardonyx.model import Model
from sardonyx.report import Report, Table

Stage = Callable[[], Report]


@dataclass(frozen=True)
class Done:
    """A stage that has run."""

    name: str
    report: Report
    seconds: float


class _Abandoned(Exception):
    """A stage ended badly: the folder that was being filled is dropped."""


def ship_source(source: Any, output: Path, *, data: Any, convert_options: dict[str, Any]) -> Report:
    """Runs the stages into a temporary folder that takes the place of `output` only when all of them end well."""
    try:
        with replacing_folder(output, known_by=RECORD) as folder:
            plan = _plan(source, folder, data, convert_options)
            stages = [_moved(done, folder, output) for done in _run_stages(plan)]
            report = _report(source, output, stages)
            if not report.ok:
                raise _Abandoned
            write_text(folder / REPORT, report.to_json(indent=1))
            write_text(folder / PAGE, page.render(report, [done.report for done in stages]))
            write_text(folder / RECORD, record(folder, Model.load(folder / MODEL), stages))
    except _Abandoned:
        return report
    return report


def _plan(source: Any, folder: Path, data: Any, convert_options: dict[str, Any]) -> dict[str, Stage]:
    model = folder / MODEL
    opening = {name: convert_options[name] for name in ("weights", "python", "trust") if name in convert_options}
    return {
        "convert": lambda: sardonyx.convert(source, model, **convert_options),
        "check": lambda: sardonyx.check(model),
        "compare": lambda: sardonyx.compare(source, model, data=data, **opening),
        "run": lambda: golden_cases(model, data, folder / GOLDEN),
    }


def _run_stages(plan: dict[str, Stage]) -> list[Done]:
    """The stages in order, up to the first that ends badly."""
    stages: list[Done] = []
    for name, stage in plan.items():
        with progress.task(name):
            started = time.perf_counter()
            stages.append(Done(name, stage(), time.perf_counter() - started))
        if not stages[-1].report.ok:
            break
    return stages


def _moved(done: Done, old: Path, new: Path) -> Done:
    """The stage with paths as they are once the folder is in its place."""

    def move(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(str(old), str(new))
        if isinstance(value, dict):
            return {key: move(item) for key, item in value.items()}
        return [move(item) for item in value] if isinstance(value, list | tuple) else value

    tables = tuple(replace(table, rows=tuple(map(tuple, move(table.rows)))) for table in done.report.tables)
    report = replace(
        done.report, fields=move(dict(done.report.fields)), summary=move(done.report.summary), tables=tables
    )
    return replace(done, report=report)


def _report(source: Any, output: Path, stages: list[Done]) -> Report:
    ok = all(done.report.ok for done in stages)
    last = stages[-1]
    rows = tuple((done.name, done.report.verdict, done.seconds, done.report.summary) for done in stages)
    summary = (
        f"{output}" if ok else f"{last.name} ended with '{last.report.verdict}', so nothing was written to {output}"
    )
    return Report(
        "ship",
        "shipped" if ok else "not-shipped",
        ok,
        fields={
            "bundle": str(output) if ok else None,
            "source": str(source) if isinstance(source, str | Path) else type(source).__qualname__,
            "stages": [{"stage": done.name, "seconds": done.seconds, **done.report.to_dict()} for done in stages],
        },
        findings=None if ok else last.report.findings,
        tables=(
            Table("stages", ("stage", "verdict", "seconds", "what it found"), rows),
            *(() if ok else last.report.tables),
        ),
        summary=summary,
    )
