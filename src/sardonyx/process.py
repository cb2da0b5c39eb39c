"""Whose process this is: that of one command, which may make settings of the whole process, or that of a program."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STAT = Path("/proc/self/stat")
# No command takes longer to start: two clocks that were set apart, as of a container that was moved, would say so.
STARTS_WITHIN = 120.0
_PR_SET_PDEATHSIG = 1
_command = ""
_begun: float | None = None


@contextmanager
def belongs_to(command: str) -> Iterator[None]:
    """Mark the process as that of the command while the entry point of `sardonyx` runs.

    A program that calls the entry point is a program again afterwards.
    """
    global _command, _begun
    before = _command, _begun
    _command, _begun = command, time.monotonic() - age()
    try:
        yield
    finally:
        _command, _begun = before


def command() -> str:
    """The command that the process does and then ends, empty in a program's process."""
    return _command


def begun() -> float | None:
    """When the command was started, by `time.monotonic`; None in a program's process."""
    return _begun


def age(stat: Path = STAT) -> float:
    """The seconds since this process was started, asked when it starts; 0 where the system does not say."""
    try:
        # The name of the program is in brackets and may hold anything; the 22nd field is the start, in ticks after boot.
        started = int(stat.read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - started
        return seconds if 0 <= seconds <= STARTS_WITHIN else 0.0
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def end_with_parent(parent: int) -> None:
    """This process is killed when the one that started it, `parent`, ends: said first by a child that a command started.

    Linux kills a process when the thread that started it ends. Elsewhere a thread looks twice a second.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if not _is_child_of(parent):  # it ended before we could ask
        os._exit(1)


def _watch(parent: int) -> None:
    while _is_child_of(parent):
        time.sleep(0.5)
    os._exit(1)


def _is_child_of(parent: int) -> bool:
    """In a process namespace of its own a child sees no parent, which is number 0."""
    return os.getppid() in (parent, 0)
