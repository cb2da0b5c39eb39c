"""What a process that serves sets for itself, and that the user's own settings go first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sardonyx import machine
from sardonyx.serve import process

NAME = "GRPC_EXPERIMENTS"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two CPUs, and nothing is set before a test; what it sets is taken back."""
    monkeypatch.setattr(machine, "threads", lambda: 2)
    monkeypatch.setenv(NAME, "")
    os.environ.pop(NAME)
    yield
    os.environ.pop(NAME, None)


def test_a_serving_process_has_grpc_poll_the_cheaper_way() -> None:
    process.settle()
    assert os.environ[NAME] == "-event_engine_listener,-event_engine_client"


def test_grpc_which_looks_at_them_when_it_is_imported_is_not_imported_before() -> None:
    modules = "import sys, sardonyx.cli.serve, sardonyx.serve.service, sardonyx.serve.worker"
    subprocess.run([sys.executable, "-c", f"{modules}; assert 'grpc' not in sys.modules"], check=True)


def test_on_one_cpu_grpc_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "threads", lambda: 1)
    process.settle()
    assert NAME not in os.environ


@pytest.mark.parametrize("mine", ["tcp_rcv_lowat", ""])
def test_experiments_that_the_user_has_set_stay(mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, mine)
    process.settle()
    assert os.environ[NAME] == mine


def test_a_grpc_that_may_have_dropped_the_switches_is_not_told_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "version", lambda _: "1.86.0rc1")
    process.settle()
    assert NAME not in os.environ
