"""A worker that hangs, does not read or closes its pipe is ended, and nobody waits longer than was said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.errors import SourceFailed
from sardonyx.sources import Original, Worker, WorkerDied, recognise
from sardonyx.sources import _worker as workers

pytestmark = pytest.mark.heavy
BODY = """
import os, time
DISTRIBUTIONS = ()
def load(source):
    {load}
def describe(model):
    {describe}
"""
# Long enough to tell a process that was ended from one that ended by itself, on any machine.
SLEEPS = "time.sleep(600)"


def worker(folder: Path, *, load: str = "pass", describe: str = "return {}") -> Path:
    path = folder / "slow.py"
    path.write_text(BODY.format(load=load, describe=describe))
    return path


def gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


def test_a_worker_that_sleeps_is_ended(tmp_path: Path) -> None:
    with Worker(worker(tmp_path, load=SLEEPS)) as asleep:
        with pytest.raises(WorkerDied, match=r"no answer within 0\.5 s"):
            asleep.ask("open", timeout=0.5, source={"form": "x"})
        assert gone(asleep._process.pid)


def test_the_deadline_of_the_block_ends_a_worker_that_has_more_time_of_its_own(tmp_path: Path) -> None:
    with Worker(worker(tmp_path, load=SLEEPS)) as asleep:
        with pytest.raises(OutOfTime), Deadline(0.5).enforced():
            asleep.ask("open", timeout=300, source={"form": "x"})
        assert gone(asleep._process.pid)


def test_a_worker_that_does_not_read_what_it_is_sent_holds_nobody(tmp_path: Path) -> None:
    """It is sent more than a pipe holds while it sleeps over the first request."""
    with Worker(worker(tmp_path, load=SLEEPS)) as asleep:
        assert asleep._write(b'{"do": "open", "source": {"form": "x"}}', Deadline(60))
        started = time.monotonic()
        with pytest.raises(WorkerDied, match="no answer within 1 s"):
            asleep.ask("describe", timeout=1, inputs="x" * (1 << 20))
        assert time.monotonic() - started < 60


def test_a_request_of_any_length_arrives(tmp_path: Path) -> None:
    body = "return len(source['weights'])"
    with Worker(worker(tmp_path, load=body, describe="return {'length': model}")) as patient:
        assert patient.ask("open", timeout=60, source={"form": "x", "weights": "x" * (1 << 20)})["ok"]
        assert patient.ask("describe", timeout=60)["description"] == {"length": 1 << 20}


def test_a_worker_that_closes_its_pipe_and_goes_on_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LEAVING", 0.5)
    closes = "[os.close(number) for number in range(3, 32) if os.path.exists(f'/proc/self/fd/{number}')]; " + SLEEPS
    with Worker(worker(tmp_path, load=closes)) as leaving:
        with pytest.raises(WorkerDied, match="closed its pipe and went on"):
            leaving.ask("open", timeout=300, source={"form": "x"})
        assert gone(leaving._process.pid)


def test_a_source_that_takes_too_long_to_open_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "asleep.py").write_text(f"import time, torch\n\ndef net():\n    {SLEEPS}\n")
    source = recognise(f"{tmp_path}/asleep.py:net")
    with pytest.raises(SourceFailed, match="could not be opened: no answer within 4 s") as late:
        Original(source, timeout=4).__enter__()
    assert "--timeout" in late.value.hint


@pytest.mark.rest
def test_to_open_and_to_export_take_the_time_of_one_route_together(tmp_path: Path) -> None:
    """The source takes long to open only the second time, in the process of the route."""
    text = """import pathlib, time, torch
def net():
    flag = pathlib.Path(__file__).with_name("opened")
    if flag.exists():
        time.sleep(600)
    flag.touch()
    return torch.nn.Linear(2, 2)
"""
    (tmp_path / "twice.py").write_text(text)
    with Original(recognise(f"{tmp_path}/twice.py:net"), timeout=60) as original:
        original.timeout = 6
        started = time.monotonic()
        exported = original.export("trace", tmp_path / "out.onnx", example={}, dynamic={})
        assert time.monotonic() - started < 60
    assert exported.path is None
    assert exported.failure is not None
    assert "no answer within 6 s" in exported.failure.reason
