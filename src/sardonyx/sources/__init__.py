"""Where models come from: one file per framework, recognised by content and run in a process of its own.

A plugin `sources/<name>.py` has `REQUIRES` (the extra), `accepts(subject)` (the form it recognises, or None) and
`routes(form)` (the ways to export it). Its worker `sources/workers/<name>.py` does the work with the framework imported;
it imports nothing of Sardonyx, so that any interpreter which has the framework can run it.
"""

from __future__ import annotations

from sardonyx.sources._answers import Branch, Exported, Failure, Outputs, Steadiness, Trial
from sardonyx.sources._original import Original
from sardonyx.sources._programs import PROGRAMS, SANDBOX, is_program
from sardonyx.sources._recognise import Source, Subject, recognise
from sardonyx.sources._worker import Worker, WorkerDied, source_failed
from sardonyx.sources.workers._harness import seconds_of

__all__ = [
    "PROGRAMS", "SANDBOX", "Branch", "Exported", "Failure", "Original", "Outputs", "Source", "Steadiness", "Subject", "Trial",
    "Worker", "WorkerDied", "is_program", "recognise", "seconds_of", "source_failed",
]  # fmt: skip
