"""A process that makes steps when it is told to: the other end of `train.Worker`. Needs nothing but Python.

It says first, in one line of JSON, how much memory its first steps took or why it cannot make any. Then it reads numbers, and
answers each with the seconds of as many steps.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

FIRST_STEPS = 5


def serve(build: Callable[[], Callable[[], object]]) -> None:
    """Builds the step and makes it as often as standard input says."""
    # Libraries print what they like to standard output, so that the answers go to a copy of it.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        step = build()
        memory = growth(step)
    except Exception as error:  # the driver shows it as the reason why there is no figure
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers)
        raise
    print(json.dumps({"memory": memory}), file=answers)
    for line in sys.stdin:
        print(json.dumps(timed(step, int(line))), file=answers)


def timed(step: Callable[[], object], count: int) -> list[float]:
    found = []
    gc.disable()
    for _ in range(count):
        begun = time.perf_counter()
        step()
        found.append(time.perf_counter() - begun)
    gc.enable()
    return found


def growth(step: Callable[[], object]) -> int:
    """By how many bytes the first steps raise the resident memory at its highest; mapped files, such as code, left out."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the building left behind must not serve the steps
    before = _status()
    Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
    for _ in range(FIRST_STEPS):
        step()
    after = _status()
    return after["VmHWM"] - before["VmRSS"] - (after["RssFile"] - before["RssFile"])


def _status() -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}
