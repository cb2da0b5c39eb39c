"""The installed onnxruntime, on its CPU provider."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from sardonyx import runtime
from sardonyx.check._releases import RunsOn
from sardonyx.check._subject import Subject
from sardonyx.report import Finding, human_bytes

CODES: dict[str, str] = {}


def runs_on(subject: Subject) -> RunsOn:
    """What the trial load said."""
    load, name = subject.load, f"onnxruntime {runtime.installed_release()}"
    reasons = {
        "loaded": f"{name} loaded it in {load.seconds:.2f} s",
        "refused": f"{name} does not load it: {textwrap.shorten(load.message, 100)}",
        "crashed": f"{name} crashed while loading it: {load.message}",
        "timeout": f"{name} did not load it within {subject.budget.cpu:.0f} s of computing",
        "memory": f"{name} wants more than {human_bytes(subject.budget.memory)} to load it",
        "skipped": f"not loaded: {load.message}",
    }
    return RunsOn("cpu", load.ok, reasons[load.state])


def findings(_: Subject) -> Iterator[Finding]:
    """Nothing: the check `load` tells what the load found."""
    yield from ()
