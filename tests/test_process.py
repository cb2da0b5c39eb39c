"""A command knows when it was started, and its time counts from there."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from sardonyx import cli, process
from sardonyx.deadline import asked_for

needs_boot_time = pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no such clock")


def account(folder: Path, seconds_ago: float) -> Path:
    """/proc/self/stat of a process that was started then, and has a name that is hard to read."""
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - seconds_ago) * os.sysconf("SC_CLK_TCK"))
    path = folder / "stat"
    path.write_text(f"7 (a) (b c) S {' '.join(['0'] * 18)} {ticks} 0 0")
    return path


@needs_boot_time
def test_the_age_of_a_process_is_read_past_any_name(tmp_path: Path) -> None:
    assert 20 <= process.age(account(tmp_path, 20)) < process.STARTS_WITHIN


@needs_boot_time
@pytest.mark.parametrize("seconds", [100_000, -100])
def test_an_age_that_cannot_be_is_none(tmp_path: Path, seconds: float) -> None:
    assert process.age(account(tmp_path, seconds)) == 0.0


@pytest.mark.parametrize("text", [None, "", "7 (a) S 1 2"])
def test_without_an_account_there_is_no_age(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "stat"
    if text is not None:
        path.write_text(text)
    assert process.age(path) == 0.0


def test_the_time_of_a_command_counts_from_its_start_and_that_of_a_call_from_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_command", "optimize")
    monkeypatch.setattr(process, "_begun", time.monotonic() - 500)
    assert asked_for(600, "optimize").left <= 100
    assert asked_for(600, "quantize").left > 500
    monkeypatch.setattr(process, "_command", "")
    assert asked_for(600, "optimize").left > 500


def test_a_program_that_called_the_entry_point_is_a_program_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sardonyx", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert process.command() == ""
    assert process.begun() is None
