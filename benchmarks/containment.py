"""What it costs to meet a model in a process of its own: verbs on a small model, contained and not.

Prints its section of RESULTS.md. With a folder, `containment.py OTHER/src`, the comparison is with the Sardonyx in that folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sardonyx.bench.interleave import speedup
from sardonyx.model import Model

LIMIT = 1.3
TURNS = 15
VERBS = ("inspect", "run", "check")
TEXT = (
    '<ir_version: 10, opset_import: ["": 20]> g (float[n,3] x) => (float[n,3] y) <float[3,3] w = {1,0,0,0,2,0,0,0,3}> '
    "{ t = MatMul(x, w) y = Relu(t) }"
)
CONTAINED = "from sardonyx.cli import main; main()"
# The same command in one process: it does not know that the process is its own, and so does not copy it.
PLAIN = "import sys; from sardonyx.cli import _contract, build; sys.exit(_contract.call(build, sys.argv[1:]))"


def main(other: str | None) -> None:
    print("## Containment\n")
    print(
        f"Time of a command that meets a small model in a confined process of its own, as a multiple of {_what(other)};"
    )
    print(f"{TURNS} turns each, interleaved, with the 95 % interval. The goal is at most {LIMIT:g}.\n")
    print("| command | ratio of elapsed time | ratio of processor time |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        Model.from_text(TEXT).save(Path(folder) / "m.onnx")
        for verb in VERBS:
            words = (verb, str(Path(folder) / "m.onnx"))
            ours = (sys.executable, "-c", CONTAINED, *words)
            theirs = (sys.executable, "-c", PLAIN if other is None else CONTAINED, *words)
            there = {**os.environ, "PYTHONPATH": other} if other is not None else dict(os.environ)
            pairs = [(cost(ours, os.environ), cost(theirs, there)) for _ in range(TURNS)]
            elapsed, processor = (
                speedup(*(np.array([pair[side][kind] for pair in pairs]) for side in (0, 1))) for kind in (0, 1)
            )
            print(f"| `sardonyx {verb}` | {elapsed} | {processor} |", flush=True)


def cost(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """The seconds on the clock, and those that the command and its children computed."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(environment))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def _what(other: str | None) -> str:
    return "the same command in one process" if other is None else "the same command of a checkout from before"


if __name__ == "__main__":
    main(next(iter(sys.argv[1:]), None))
