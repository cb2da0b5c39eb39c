"""Whose process this is: that of one command, which may make settings of the whole process, or that of a program."""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/self/stat")
# No command takes longer to start: two clocks that were set apart, as of a container that was moved, would say so.
STARTS_WITHIN = 120.0
_command = ""
_begun: float | None = None


def belongs_to(command: str) -> None:
    """Said once, by the entry point of the `sardonyx` command."""
    global _command, _begun
    _command = command
    _begun = time.monotonic() - age()


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
