"""Progress is silent unless somebody shows it."""

from __future__ import annotations

import pytest

from sardonyx import progress


class Recorder:
    """A display that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def start(self, text: str, total: float | None) -> int:
        self.told.append(("start", text, total))
        return len(self.told)

    def advance(self, handle: int, amount: float, text: str | None) -> None:
        self.told.append(("advance", handle, amount, text))

    def finish(self, handle: int) -> None:
        self.told.append(("finish", handle))

    def say(self, text: str) -> None:
        self.told.append(("say", text))


def test_a_task_runs_without_anyone_watching() -> None:
    with progress.task("work", total=2) as advance:
        advance()
        advance(1, text="nearly")


def test_a_display_is_told_of_start_steps_and_end() -> None:
    display = Recorder()
    with progress.shown_on(display), progress.task("work", total=2) as advance:
        advance()
        advance(0.5, text="nearly")
    assert display.told == [("start", "work", 2), ("advance", 1, 1, None), ("advance", 1, 0.5, "nearly"), ("finish", 1)]


def test_a_task_that_fails_is_finished_and_the_error_goes_on() -> None:
    display = Recorder()
    with pytest.raises(ValueError), progress.shown_on(display), progress.task("work"):
        raise ValueError
    assert display.told == [("start", "work", None), ("finish", 1)]


def test_nothing_is_shown_after_the_block() -> None:
    display = Recorder()
    with progress.shown_on(display):
        pass
    with progress.task("later"):
        pass
    assert display.told == []


def test_what_is_said_is_shown_where_somebody_watches() -> None:
    display = Recorder()
    progress.say("to nobody")
    with progress.shown_on(display):
        progress.say("converted by trace")
    assert display.told == [("say", "converted by trace")]
