"""What `sardonyx --help` costs beside the imports that it cannot do without.

Prints its section of RESULTS.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sardonyx.bench.interleave import Ratio, Turn, measure, speedup

LIMIT = 2.0
SECONDS = 30
COMMAND = str(Path(sys.executable).with_name("sardonyx"))
IMPORTS = (sys.executable, "-c", "import typer, rich")
VERBS = ("--help", "--version", "check --help", "convert --help")


def main() -> None:
    print("## Start-up\n")
    print(
        f'Ratio to `python -c "import typer, rich"`, typical of the pairs of {SECONDS} s, with its 95 % interval. The'
    )
    print(f"goal for `sardonyx --help` is at most {LIMIT:g}.\n")
    print("| command | ratio of elapsed time | ratio of processor time |\n|---|---|---|")
    for words in VERBS:
        command = (COMMAND, *words.split())
        elapsed, processor = _ratio(process_seconds, command), _ratio(processor_seconds, command)
        print(f"| `sardonyx {words}` | {elapsed} | {processor} |", flush=True)


def process_seconds(command: Sequence[str]) -> float:
    """The time from the start of a process to its end."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def processor_seconds(command: Sequence[str]) -> float:
    """The time that a process computes, which a busy machine does not lengthen."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def _ratio(seconds: Callable[[Sequence[str]], float], command: Sequence[str]) -> Ratio:
    def turn(words: Sequence[str]) -> Turn:
        return lambda repeats: np.array([seconds(words) for _ in range(repeats)])

    found = measure({"command": turn(command), "imports": turn(IMPORTS)}, seconds=SECONDS, enough=1.0).rounds
    return speedup(found["command"], found["imports"])


if __name__ == "__main__":
    main()
