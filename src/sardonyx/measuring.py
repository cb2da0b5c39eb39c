"""What a measurement says about itself: how busy others kept the machine meanwhile, and what there was no time for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sardonyx.report import Finding, Severity

CODES = {
    "busy-machine": "Other processes used much of the machine while speed was measured.",
    "out-of-time": "Something was not tried, or only in part, because the time that was asked for ran out.",
}
PROC = Path("/proc")
# Above this share of the CPUs others disturb what is measured.
BUSY = 0.2
# The accounts are kept in hundredths of a second: over less than this much time they say little.
LEAST_SECONDS = 0.25
# Columns of a line of /proc/stat that are no work: idle, waiting for the disk, and what is in `user` and `nice` already.
_IDLE, _COUNTED = (3, 4), 8


class Watch:
    """Adds up what other processes compute while its blocks run: `with watch: ...`, as often as wanted.

    Processes that this one started are its own. The CPUs are those that it may run on; what a hypervisor took counts as others.
    """

    def __init__(self, proc: Path = PROC, cpus: Sequence[int] | None = None) -> None:
        self._proc = proc
        self._cpus = list(_allowed() if cpus is None else cpus)
        self._before: tuple[float, float, float] | None = None
        self._whole = self._others = 0.0

    def __enter__(self) -> Watch:
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        before, after = self._before, self._now()
        if before is None or after is None:
            return
        whole, busy, own = (late - early for late, early in zip(after, before, strict=True))
        self._whole += whole
        self._others += min(max(0.0, busy - own), whole)

    @property
    def share(self) -> float | None:
        """How much of these CPUs others took; None where the system does not say, or the time was too short to tell."""
        least = LEAST_SECONDS * os.sysconf("SC_CLK_TCK") * len(self._cpus) if hasattr(os, "sysconf") else 0.0
        return self._others / self._whole if self._cpus and self._whole >= max(least, 1.0) else None

    def _now(self) -> tuple[float, float, float] | None:
        """Ticks that these CPUs had, those that they worked, and those of our own processes."""
        try:
            return (*_worked(self._proc / "stat", self._cpus), _own(self._proc))
        except (OSError, ValueError, IndexError):  # no such file, or not written as Linux writes it
            return None


def busy(share: float | None) -> list[Finding]:
    """The warning that other processes kept the machine busy; none if they took little, or if that is not known."""
    if share is None or share < BUSY:
        return []
    count = len(_allowed())
    return [
        Finding(
            "warning", "busy-machine", "",
            f"other processes took {share:.0%} of {f'the {count} CPUs' if count > 1 else 'the CPU'} while speed was measured",
            "variants took turns, so ratios hold; times are longer, and intervals wider, than on a quiet machine",
        )
    ]  # fmt: skip


def out_of_time(what: Sequence[str], hint: str, *, severity: Severity = "warning") -> list[Finding]:
    """The finding about what there was no time for, none where that is nothing."""
    return [Finding(severity, "out-of-time", "", f"time ran out: {'; '.join(what)}", hint)] if what else []


def _allowed() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _worked(stat: Path, cpus: Sequence[int]) -> tuple[float, float]:
    """All ticks of these CPUs, and those that were work."""
    lines = {name: list(map(int, counts)) for name, *counts in map(str.split, stat.read_text().splitlines()) if counts}
    whole = idle = 0
    for cpu in cpus:
        counts = lines.get(f"cpu{cpu}", [])[:_COUNTED]
        whole += sum(counts)
        idle += sum(counts[column] for column in _IDLE if column < len(counts))
    return whole, whole - idle


def _own(proc: Path) -> float:
    """The ticks of this process and of all that it started, those that have ended included."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for folder in proc.iterdir():
        if folder.name.isdecimal():
            try:
                # The name of a program is in brackets and may hold anything.
                rest = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            process = int(folder.name)
            parents[process], ticks[process] = int(rest[1]), sum(map(int, rest[11:15]))
    return sum(count for process, count in ticks.items() if _descends(process, os.getpid(), parents))


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process != ancestor and process in parents:
        process = parents[process]
    return process == ancestor
