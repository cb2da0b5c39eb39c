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

import numpy as np

import sardonyx
from sardonyx.errors import SardonyxError
from sardonyx.sources import Original, recognise
from traps._oracle import differences, expected
from traps._trap import CLASSES, Arrays, Trap

FOLDER = Path(__file__).parent
GOOD = ("agrees", "partial", "converted")
OUTCOMES = ("handed over wrong", "model changed", "not named", "refused though right", "said", "right")
BAD = OUTCOMES[:4]


@dataclass(frozen=True)
class Outcome:
    """What came of one trap."""

    trap_class: str
    name: str
    framework: str
    outcome: str  # one of OUTCOMES
    verdict: str  # of convert, or "error"
    route: str
    routes: str  # the verdict of every route
    findings: tuple[str, ...]  # the codes of convert's findings
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
        source, report, error = trap.source(live=live), None, ""
        before = state_of(source)
        try:
            report = sardonyx.convert(source, path, inputs=trap.inputs, example=_example(trap), **trap.options)
        except SardonyxError as failure:
            error = f"{type(failure).__name__}: {failure.message}"
        seconds = time.perf_counter() - started
        outcome, difference = _judge(trap, report, error, path)
        if state_of(source) != before:
            outcome, difference = "model changed", "converting changed the live model"
    verdict, route = ("error", "") if report is None else (report.verdict, report["route"] or "")
    said = error if report is None else _words(report)
    routes = "" if report is None else ", ".join(f"{c['route']} {c['verdict']}" for c in report["candidates"])
    codes = () if report is None else tuple(dict.fromkeys(finding.code for finding in report.findings or ()))
    return Outcome(
        trap.trap_class, trap.name, trap.framework, outcome, verdict, route, routes, codes, said, difference, seconds
    )  # fmt: skip


def state_of(source: Any) -> str:
    """A live module's parameters, buffers, attributes and modes as text; "" for anything else."""
    if not hasattr(source, "state_dict"):
        return ""
    modules = {
        name: {key: value for key, value in vars(module).items() if isinstance(value, bool | int | float | str | list)}
        for name, module in source.named_modules()
    }
    tensors = {name: tensor.tolist() for name, tensor in source.state_dict().items()}
    return f"{modules} {tensors}"


def table_row(found: dict[str, Any]) -> tuple[str, ...]:
    """The cells of an outcome in docs/conversions.md, after the name of the trap."""
    verdict = f"{found['verdict']} by {found['route']}" if found["route"] else found["verdict"]
    return found["framework"], verdict, found["routes"], ", ".join(found["findings"]), found["outcome"]


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
        wrong = differences(trap, answered, path)
        if not wrong:
            return "right", ""
        return ("said" if all(_points_at(trap, report, case) for case, _ in wrong) else "handed over wrong"), wrong[0][
            1
        ]
    if trap.expect == "refuse":
        words = error or f"{_words(report)} {json.dumps(report.to_dict(), default=str)}"
        return ("said" if re.search(trap.said, words, re.IGNORECASE) else "not named"), ""
    by = right_route(trap, answered, path.parent)
    return ("refused though right", f"{by} is right") if by else ("said", "")


def _points_at(trap: Trap, report: Any, case: Arrays) -> bool:
    """Whether a finding that is more than information names the trap: its line, its own words, or the kind of value."""
    for text in _findings(report):
        line = re.search(r"\.py:(\d+)", text)
        if line is not None and int(line[1]) in trap.lines:
            return True
        if trap.said and re.search(trap.said, text, re.IGNORECASE):
            return True
        if text.startswith("edge-values") and any(re.search(word, text, re.IGNORECASE) for word in _edges(case)):
            return True
    return False


def _edges(case: Arrays) -> list[str]:
    """How a finding about edge values would name this case: NaN, infinities, no rows, huge numbers."""
    numbers = [array for array in case.values() if array.dtype.kind == "f"]
    found = {
        "nan|missing": any(np.isnan(array).any() for array in numbers),
        "infinit": any(np.isinf(array).any() for array in numbers),
        "= 0'": any(array.size == 0 for array in case.values()),
        "large|huge": any(np.abs(array[np.isfinite(array)]).max(initial=0) > 1e4 for array in numbers),
    }
    return [word for word, here in found.items() if here]


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
            if exported.path is not None and not exported.failure and not differences(trap, answered, exported.path):
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
