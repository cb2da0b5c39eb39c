"""What a stage tells whoever is watching. Silent by default; the command line draws a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Display(Protocol):
    """Draws tasks: `start` gives a handle that `advance` and `finish` take. `say` writes a line that stays."""

    def start(self, text: str, total: float | None) -> int: ...
    def advance(self, handle: int, amount: float, text: str | None) -> None: ...
    def finish(self, handle: int) -> None: ...
    def say(self, text: str) -> None: ...


_display: ContextVar[Display | None] = ContextVar("sardonyx_display", default=None)


@contextmanager
def shown_on(display: Display) -> Iterator[None]:
    """Every task inside the block is drawn on `display`."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def task(text: str, *, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A piece of work that may take over a second. Yields `advance(amount=1, text=None)`."""
    display = _display.get()
    if display is None:
        yield lambda amount=1, text=None: None  # noqa: ARG005
        return
    handle = display.start(text, total)
    try:
        yield lambda amount=1, text=None: display.advance(handle, amount, text)
    finally:
        display.finish(handle)


def say(text: str) -> None:
    """A line for whoever is watching that stays when the task is over: what a stage found."""
    display = _display.get()
    if display is not None:
        display.say(text)
