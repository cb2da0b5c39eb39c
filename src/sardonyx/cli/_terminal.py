"""The terminal: its width, whether it wants colour, and a bar on stderr for anything over a second."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sardonyx import progress
from sardonyx.report import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_AFTER_SECONDS = 1.0


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def ready_streams() -> None:
    """stdout and stderr are there and take any character, whatever started us."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller; its number must not go to the next file that is opened
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  open until we end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """What a library prints on stdout goes to stderr while the block runs: stdout is for the answer alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def stdout_width() -> int:
    """The terminal's width, or 120 where the output is piped."""
    return shutil.get_terminal_size((120, 24)).columns


@contextmanager
def progress_on_stderr(quiet: bool) -> Iterator[None]:
    """Tasks of the stages are drawn on stderr while the block runs."""
    with nullcontext() if quiet else _drawing():
        yield


@contextmanager
def _drawing() -> Iterator[None]:
    bars = _Bars()
    try:
        with progress.shown_on(bars):
            yield
    finally:
        bars.close()


class _Bars:
    """Draws a task once it has run for a second, so that quick commands stay quiet and import no bar."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[int, _Task] = {}
        self._drawn: Progress | None = None
        self._next = 0

    def start(self, text: str, total: float | None) -> int:
        with self._lock:
            self._next += 1
            timer = threading.Timer(_AFTER_SECONDS, self._show, [self._next])
            timer.daemon = True
            self._tasks[self._next] = _Task(text, total, timer)
            timer.start()
            return self._next

    def advance(self, handle: int, amount: float, text: str | None) -> None:
        with self._lock:
            task = self._tasks[handle]
            task.done += amount
            task.text = text or task.text
            if self._drawn is not None and task.id is not None:
                self._drawn.update(task.id, completed=task.done, description=task.text)

    def finish(self, handle: int) -> None:
        with self._lock:
            task = self._tasks.pop(handle)
            task.timer.cancel()
            if self._drawn is not None and task.id is not None:
                self._drawn.remove_task(task.id)

    def say(self, text: str) -> None:
        with self._lock:
            if self._drawn is not None:
                self._drawn.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{visible(text)}\n")

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def _show(self, handle: int) -> None:
        with self._lock:
            task = self._tasks.get(handle)
            if task is None:
                return
            if not sys.stderr.isatty():
                sys.stderr.write(f"{task.text} ...\n")
                return
            self._drawn = self._drawn or _bar()
            task.id = self._drawn.add_task(task.text, total=task.total, completed=int(task.done))


@dataclass
class _Task:
    text: str
    total: float | None
    timer: threading.Timer
    done: float = 0.0
    id: TaskID | None = None


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    return bar
