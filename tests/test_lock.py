"""One writer at a time, and a lock that nobody has to remove by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sardonyx import lock
from sardonyx.errors import OutputError

HOLD = """
import sys, time
from pathlib import Path
from sardonyx import lock
with lock.held(Path(sys.argv[1]), Path("the folder")):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_learns_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / ".x.lock"
    with lock.held(path, tmp_path / "x"):
        assert path.read_text() == str(os.getpid())
        with pytest.raises(OutputError, match=rf"another process \({os.getpid()}\) is writing .*/x"):
            lock.held(path, tmp_path / "x").__enter__()
    assert not path.exists()
    with lock.held(path, tmp_path / "x"):
        pass


def test_the_lock_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / ".x.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(OutputError, match=str(child.pid)):
            lock.held(path, tmp_path).__enter__()
        child.send_signal(signal.SIGKILL)
    assert path.exists()
    with lock.held(path, tmp_path):
        assert path.read_text() == str(os.getpid())
    assert not path.exists()


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder", "somebody's file"])
def test_what_is_no_lock_file_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, victim = tmp_path / ".x.lock", tmp_path / "victim"
    victim.write_text("years of work")
    {
        "link": lambda: path.symlink_to(victim),
        "hard link": lambda: os.link(victim, path),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "somebody's file": lambda: path.write_text("notes"),
    }[kind]()
    with pytest.raises(OutputError, match="cannot lock"):
        lock.held(path, tmp_path / "x").__enter__()
    assert victim.read_text() == "years of work"
    assert os.path.lexists(path)


def test_many_writers_in_turns_are_never_two_at_a_time(tmp_path: Path) -> None:
    inside, worst, done = 0, 0, 0

    def work() -> None:
        nonlocal inside, worst, done
        for _ in range(300):
            try:
                with lock.held(tmp_path / ".x.lock", tmp_path):
                    inside += 1
                    worst = max(worst, inside)
                    inside -= 1
                    done += 1
            except OutputError:
                continue

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1
    assert done > 0
    assert not (tmp_path / ".x.lock").exists()
