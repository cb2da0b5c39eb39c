"""Sessions that take turns compute on the same threads.

onnxruntime gives each session threads of its own, which go on spinning for a while after a call and so take a core from
whoever has the next turn. Which session suffers depends on where its threads happen to lie, and stays so for as long as
it lives: a model was up to 1.5 times as fast as itself. In the process of the command `bench` all sessions share one pool of
threads. Elsewhere there are sessions that want others, and the threads of each session rest after every call.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import process
from sardonyx.bench.lineup import Entry
from sardonyx.bench.variants._variant import How, as_onnx
from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.run.session import Settings, share_threads


def share(entries: Sequence[Entry], how: How) -> None:
    """Lets the ONNX models share threads if measuring is all that the process does and all want as many, and more than one."""
    if process.command() != "bench" or how.provider != "cpu":
        return
    wanted = [settings for entry in entries if (settings := _wanted(entry, how)) is not None]
    [count, *others] = {settings.thread_count for settings in wanted} or {1}
    if count > 1 and not others and all(settings.spinning is None for settings in wanted):
        share_threads(count)


def _wanted(entry: Entry, how: How) -> Settings | None:
    """The settings that the model will be opened with. None where it is not ONNX, or does not load: opening it says why."""
    found = as_onnx(entry.source) if entry.runtime == "onnxruntime" else None
    if found is None:
        return None
    try:
        return Settings(threads=how.threads).filled_from(Model.load(found))
    except SardonyxError:
        return None
