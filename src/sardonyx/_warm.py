"""Child process: does verbs for a program, each in a copy of itself. One line of JSON in, one out; see warm.py."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import sardonyx
from sardonyx import blame, containment, warm
from sardonyx.containment import Work
from sardonyx.errors import SardonyxError
from sardonyx.report import Report
from sardonyx.sandbox import Confinement

# What the copies need and should not have to import each for itself.
HEAVY = ("onnxruntime", "sardonyx.model", "sardonyx.inspect.summary", "sardonyx.run.once", "sardonyx.view.writing")


def main() -> None:
    # What a library prints belongs to stderr: answers go to the first stdout.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.set_inheritable(0, False)
    for name in HEAVY:
        import_module(name)
    while line := sys.stdin.buffer.readline():
        answers.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        answers.flush()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """{"report", "artifacts"} or {"error"}."""
    scratch = Path(request["scratch"])
    work = Work(request["verb"], request["about"], Confinement.from_dict(request["confinement"]), request["seconds"])
    try:
        report = containment.forked(work, lambda: _do(request, scratch))
    except SardonyxError as error:
        return {"error": error.to_dict()}
    fields = dict(report.fields)
    artifacts = fields.pop("artifacts")
    told = containment.report_as_data(report)
    return {"report": {**told, "fields": fields}, "artifacts": artifacts}


def _do(request: dict[str, Any], scratch: Path) -> Report:
    os.chdir(request["folder"])
    arguments = warm.unpack(request["arguments"], scratch / "given.npz")
    try:
        report: Report = getattr(sardonyx, request["verb"])(**arguments)
    except Exception as error:
        raise blame.named(error, [request["about"]]) from error
    artifacts = warm.pack(dict(report.artifacts), scratch / "artifacts.npz")
    return replace(report, fields={**report.fields, "artifacts": artifacts})


if __name__ == "__main__":
    main()
