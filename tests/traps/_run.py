"""Runs `sardonyx.convert` on traps and says which were handed over wrong, said, refused though right, or right.

    PYTHONPATH=tests python -m traps._run [--class "text"] [--framework torch] [--only NAME ...] [--as-files] [--json out.json]

A trap is *handed over wrong* if an export was written that differs from the original on the trap's cases and no finding says so.
It is *refused though right* if nothing was written although an exporter's file is right on every case.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sardonyx
from sardonyx.errors import SardonyxError
from sardonyx.sources import Original, recognise
from traps._oracle import difference_of, expected
from traps._trap import CLASSES, Trap

FOLDER = Path(__file__).parent
GOOD = ("agrees", "partial", "converted")
OUTCOMES = ("handed over wrong", "not named", "refused though right", "said", "right")
BAD = OUTCOMES[:3]


@dataclass(frozen=True)
class Outcome:
    """What came of one trap."""

    trap_class: str
    name: str
    framework: str
    outcome: str  # one of OUTCOMES
    verdict: str  # of convert, or "error"
    route: str
    said: str  # convert's findings, or the reasons of its routes
    difference: str  # by the oracle, of the file that was handed over
    seconds: float


def files() -> list[str]:
    """The modules that hold traps."""
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py") if not path.stem.startswith("test_"))


def load(modules: Iterable[str] | None = None) -> list[Trap]:
    """Every trap, in the order of the classes. The modules import their frameworks only inside factories, or are PyTorch's."""
    found = [trap for name in modules or files() for trap in importlib.import_module(f"traps.{name}").TRAPS]
    return sorted(found, key=lambda trap: (CLASSES.index(trap.trap_class), trap.framework, trap.name))


def run(trap: Trap, *, live: bool | None = None) -> Outcome:
    """Converts the trap and judges what came out."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="trap-") as folder, _workers_find_traps():
        path = Path(folder) / "model.onnx"
        report, error = None, ""
        try:
            report = sardonyx.convert(
                trap.source(live=live), path, inputs=trap.inputs, example=_example(trap), **trap.options
            )
        except SardonyxError as failure:
            error = f"{type(failure).__name__}: {failure.message}"
        seconds = time.perf_counter() - started
        outcome, difference = _judge(trap, report, error, path)
    verdict, route = ("error", "") if report is None else (report.verdict, report["route"] or "")
    said = error if report is None else _words(report)
    return Outcome(trap.trap_class, trap.name, trap.framework, outcome, verdict, route, said, difference, seconds)


def _example(trap: Trap) -> Any:
    return trap.example() if trap.example else None


def _judge(trap: Trap, report: Any, error: str, path: Path) -> tuple[str, str]:
    """(outcome, how the file that was handed over differs)."""
    handed = report is not None and report.verdict in GOOD
    if trap.expect in ("random", "state"):
        if re.search(trap.said or trap.expect, error or " ".join(_findings(report)), re.IGNORECASE):
            return "said", ""
        return ("handed over wrong", f"nothing says that it has {trap.expect}") if handed else ("not named", "")
    answered = expected(trap)
    if handed:
        difference = difference_of(trap, answered, path)
        return ("right" if not difference else "said" if _points_at(trap, report) else "handed over wrong"), difference
    if trap.expect == "refuse":
        return "said", ""
    by = right_route(trap, answered, path.parent)
    return ("refused though right", f"{by} is right") if by else ("said", "")


def _points_at(trap: Trap, report: Any) -> bool:
    """Whether a finding that is more than information, or an unreached line, names the trap."""
    for item in report.to_dict().get("unreached") or ():
        if int(item["line"]) in trap.lines:
            return True
    for text in _findings(report):
        line = re.search(r"\.py:(\d+)", text)
        if line is not None and int(line[1]) in trap.lines:
            return True
        if trap.said and re.search(trap.said, text, re.IGNORECASE):
            return True
    return False


def _findings(report: Any) -> list[str]:
    """The findings that are more than information, each in one line."""
    told = [finding for finding in report.findings or () if finding.severity != "info"]
    return [f"{finding.code}: {finding.where} {finding.message}" for finding in told]


def _words(report: Any) -> str:
    """The findings in one line, and why each route lost."""
    reasons = [f"{c['route']} {c['verdict']}: {c['reason']}" for c in report["candidates"] if c["reason"]]
    return "; ".join([*_findings(report), *reasons])


def right_route(trap: Trap, answered: Any, folder: Path) -> str:
    """The first route whose file, as the exporter wrote it, is right on every case; "" if there is none."""
    from sardonyx.convert.inputs import settle

    with Original(recognise(trap.source()), timeout=300) as original:
        settled = settle(trap.inputs, _example(trap), original.describe())
        options = {"opset": 18, "input_names": [], "output_names": [], "training": False}
        for route in original.source.routes():
            exported = original.export(
                route, folder / f"{route}.onnx", example=settled.example, dynamic=settled.dynamic, **options
            )
            if exported.path is not None and not exported.failure and not difference_of(trap, answered, exported.path):
                return route
    return ""


@contextmanager
def _workers_find_traps() -> Any:
    """Worker processes import `traps.NAME`; the folder of the tests is put on their path."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER.parent), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def table(outcomes: list[Outcome]) -> str:
    """One line for each class: how many of each outcome."""
    lines = [f"{'class':34}" + "".join(f"{word:>22}" for word in OUTCOMES)]
    for name in (*CLASSES, "all"):
        mine = [o.outcome for o in outcomes if name in (o.trap_class, "all")]
        if mine:
            lines.append(f"{name:34}" + "".join(f"{mine.count(word):22}" for word in OUTCOMES))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--class", dest="trap_class", help="run only this class")
    parser.add_argument("--framework", help="run only this framework")
    parser.add_argument("--only", nargs="*", default=(), help="run only traps of these names")
    parser.add_argument("--modules", nargs="*", help="run only the traps of these files, as torch_values")
    parser.add_argument("--as-files", action="store_true", help="open every model in a worker process")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    given = parser.parse_args()
    outcomes = []
    for trap in load(given.modules):
        if given.trap_class not in (None, trap.trap_class) or given.framework not in (None, trap.framework):
            continue
        if given.only and trap.name not in given.only:
            continue
        outcomes.append(run(trap, live=False if given.as_files else None))
        last = outcomes[-1]
        print(  # noqa: T201
            f"{last.outcome:22}{trap.trap_class} / {trap.name} ({last.verdict} {last.route}, {last.seconds:.1f} s) "
            f"{last.difference[:200]} | {last.said[:300]}",
            flush=True,
        )
        if given.json:
            given.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    print(table(outcomes))  # noqa: T201


if __name__ == "__main__":
    main()
