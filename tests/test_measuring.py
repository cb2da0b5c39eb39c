"""A busy machine is told from our own work, by accounts written as Linux writes them; without them nothing is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sardonyx.measuring import BUSY, Watch, busy, out_of_time

HERE = os.getpid()


def accounts(proc: Path, cpus: Mapping[int, tuple[int, int]], processes: Mapping[int, tuple[int, int]]) -> None:
    """Ticks of work and idleness for each CPU; the parent and the ticks of each process."""
    proc.mkdir(exist_ok=True)
    lines = [f"cpu{cpu} {work // 2} 0 {work - work // 2} {idle} 0 0 0 0 0 0" for cpu, (work, idle) in cpus.items()]
    (proc / "stat").write_text("\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *lines, "intr 7 0 0", "ctxt 5"]))
    for process, (parent, ticks) in processes.items():
        (proc / str(process)).mkdir(exist_ok=True)
        head = f"{process} (a) name) S {parent} 1 1 0 -1 0 0 0 0 0"
        (proc / str(process) / "stat").write_text(f"{head} {ticks} 0 0 0 20 0 1 0 0 0")
    (proc / "self").mkdir(exist_ok=True)


def watched(proc: Path, before: tuple, after: tuple, cpus: list[int]) -> Watch:  # type: ignore[type-arg]
    accounts(proc, *before)
    with Watch(proc, cpus) as watch:
        accounts(proc, *after)
    return watch


def test_others_are_what_is_worked_and_is_not_ours(tmp_path: Path) -> None:
    """Two CPUs for ten seconds: 900 ticks of ours and of our child, 500 of a stranger, 600 idle."""
    child, grandchild, stranger = HERE + 1, HERE + 2, HERE + 3
    family = {HERE: (1, 100), child: (HERE, 0), grandchild: (child, 50), stranger: (1, 7)}
    later = {HERE: (1, 600), child: (HERE, 300), grandchild: (child, 150), stranger: (1, 507)}
    watch = watched(
        tmp_path / "proc", ({0: (0, 0), 1: (0, 0)}, family), ({0: (800, 200), 1: (600, 400)}, later), [0, 1]
    )
    assert watch.share == pytest.approx(500 / 2000)


def test_cpus_that_we_may_not_use_do_not_count(tmp_path: Path) -> None:
    watch = watched(
        tmp_path / "proc",
        ({0: (0, 0), 1: (0, 0)}, {HERE: (1, 0)}),
        ({0: (1000, 0), 1: (90, 910)}, {HERE: (1, 0)}),
        [1],
    )
    assert watch.share == pytest.approx(0.09)


def test_blocks_add_up(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    watch = Watch(proc, [0])
    for work in (0, 600):
        accounts(proc, {0: (work, 1000)}, {HERE: (1, 0)})
        with watch:
            accounts(proc, {0: (work + 300, 1100)}, {HERE: (1, 0)})
    assert watch.share == pytest.approx(600 / 800)


@pytest.mark.parametrize("text", [None, "", "cpu0 what\n", "cpu7 1 2 3 4 5 6 7\n"])
def test_without_accounts_nothing_is_said(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    with Watch(tmp_path, [0]) as watch:
        pass
    assert watch.share is None


def test_a_moment_is_too_short_to_tell(tmp_path: Path) -> None:
    watch = watched(tmp_path / "proc", ({0: (0, 0)}, {HERE: (1, 0)}), ({0: (5, 0)}, {HERE: (1, 0)}), [0])
    assert watch.share is None


@pytest.mark.skipif(not Path("/proc/stat").is_file(), reason="the system keeps no such accounts")
def test_our_own_work_and_that_of_our_children_is_not_that_of_others() -> None:
    """Counted in work that is surely there, not in time: others may do what they like meanwhile."""
    spin = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    with Watch() as watch:
        process = subprocess.Popen([sys.executable, "-c", spin])
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
        process.wait()
    assert watch.share is not None
    taken = watch._whole * watch.share / os.sysconf("SC_CLK_TCK")
    possible = watch._whole / os.sysconf("SC_CLK_TCK") - 0.9
    assert taken <= possible


def test_much_is_a_warning_with_the_number_and_little_is_none() -> None:
    (finding,) = busy(0.85)
    assert (finding.severity, finding.code) == ("warning", "busy-machine")
    assert "other processes took 85% of the" in finding.message
    assert busy(BUSY - 0.01) == busy(None) == []


def test_what_there_was_no_time_for_is_one_finding() -> None:
    assert out_of_time([], "give more") == []
    (finding,) = out_of_time(["a", "b"], "give more")
    assert (finding.code, finding.message) == ("out-of-time", "time ran out: a; b")
