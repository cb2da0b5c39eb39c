"""A step of training, batch 64: PyTorch, Sardonyx on stock onnxruntime and its peers, each in a process of its own, in turns.

Prints its section of RESULTS.md. What was measured is kept in build/train, so that the section can be put together from
several short runs:

    python benchmarks/train.py --network cnn --threads 1     # measures, and prints the section of all that is kept
    python benchmarks/train.py --keep                        # measures what is not kept yet
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import _train_artifacts
import _train_peers
import numpy as np
from _train_networks import BATCH, NETWORKS

from sardonyx.bench.interleave import measure, speedup

HERE = Path(__file__).parent
# For all variants together, and the rounds that slow ones go on to.
SECONDS = 30.0
# Idle threads wait busily for a moment; the next variant's turn begins when they sleep.
PAUSE = 0.02
THREADS = (1, 2)
OPTIMIZERS = ("adamw", "sgd")
PEERS = {
    "compiled": "torch.compile", "ort-training": "onnxruntime-training", "onnxsim": "onnxsim", "onnx-ad": "onnx-ad",
}  # fmt: skip
VARIANTS = ("eager", "sardonyx", *PEERS)
MEMORY_GOAL = 1.3
# Why a library has no figure, in place of what it says itself.
REASONS = {
    "'LSTM'": "no LSTM",
    "BatchNormalization has": "no BatchNorm in training", "BatchNormalization with": "no BatchNorm in training",
    "'Cast'": "no gradient of Cast", "perm size": "its graph does not run", "static": "needs static sizes",
}  # fmt: skip


class Worker:
    """A process that makes steps of one variant and times them."""

    def __init__(self, variant: str, network: str, optimizer: str, threads: int) -> None:
        words: list[str | Path] = [sys.executable, HERE / "_train_steps.py", variant]
        if variant == "ort-training":
            words = [_train_peers.ort_training(), HERE / "_train_ort.py"]
        self._process = subprocess.Popen(
            [*words, network, optimizer, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, cwd=HERE, env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip

    @cached_property
    def said(self) -> dict[str, Any]:
        """How much memory the first steps took, or why there are none. Waits until it is known."""
        found: dict[str, Any] = self._answer()
        return found

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def __call__(self, count: int) -> np.ndarray[Any, Any]:
        time.sleep(PAUSE)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return np.array(self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS)
    parser.add_argument("--threads", type=int, choices=THREADS)
    parser.add_argument("--optimizer", choices=OPTIMIZERS)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="the variants to measure, with commas")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--made", action="store_true", help="take the artifacts of the last run, and make none")
    parser.add_argument("--keep", action="store_true", help="leave out what is kept of an earlier run")
    parser.add_argument("--print", action="store_true", help="measure nothing, print what is kept")
    words = parser.parse_args()
    networks = [words.network] if words.network else list(NETWORKS)
    for network in [] if words.print else networks:
        if not words.made:
            subprocess.run([sys.executable, HERE / "_train_artifacts.py", network], check=True, stdout=sys.stderr)
        for threads in [words.threads] if words.threads else THREADS:
            for optimizer in [words.optimizer] if words.optimizer else OPTIMIZERS:
                path = _path(network, threads, optimizer)
                if not (words.keep and path.exists()):
                    _keep(path, compared(network, optimizer, threads, words.variants.split(","), words.seconds))
    print("\n".join(section()))


def _path(network: str, threads: int, optimizer: str) -> Path:
    return _train_artifacts.KEPT / f"{network}-{threads}-{optimizer}.json"


def _keep(path: Path, found: dict[str, Any]) -> None:
    """Adds to what an earlier run of other variants found."""
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, **found}, indent=1) + "\n")


def compared(network: str, optimizer: str, threads: int, variants: list[str], seconds: float) -> dict[str, Any]:
    """For each variant its speed, as a multiple of PyTorch eager's, and the memory of its steps; or the reason for none."""
    found: dict[str, Any] = {}
    with ExitStack() as open_workers:
        workers = {
            variant: open_workers.enter_context(Worker(variant, network, optimizer, threads)) for variant in variants
        }
        for variant, worker in workers.items():
            found[variant] = dict(worker.said)
            print(f"{network} {optimizer} {threads} {variant}: {worker.said}", file=sys.stderr, flush=True)
        able = {variant: worker for variant, worker in workers.items() if "error" not in worker.said}
        rounds = measure(able, seconds=seconds, enough=1.0).rounds
    for variant, times in rounds.items():
        ratio = speedup(rounds["eager"], times)
        found[variant] |= {**ratio.to_dict(), "milliseconds": 1000 * float(np.median(times))}
        print(f"  {variant}: {ratio}, {found[variant]['milliseconds']:.2f} ms", file=sys.stderr, flush=True)
    return found


def section() -> Iterator[str]:
    """The section of RESULTS.md, from what is kept."""
    yield "## Training\n"
    yield "How many times as fast as PyTorch eager a whole step is (forward, backward, update); more is better. The batch is"
    yield f"{BATCH}. Each variant runs in a process of its own, and they take turns. Memory: by how much the first steps raise"
    yield f"the resident memory, over PyTorch's; the goal is at most {MEMORY_GOAL}. onnx-ad has no optimizers: its step is"
    yield "forward and backward alone."
    yield ""
    yield f"| network | optimizer | threads | goal | Sardonyx | memory | {' | '.join(PEERS.values())} |"
    yield f"|{'---|' * (6 + len(PEERS))}"
    for name, network in NETWORKS.items():
        for threads in THREADS:
            for optimizer in OPTIMIZERS:
                path = _path(name, threads, optimizer)
                if path.exists():
                    found = json.loads(path.read_text())
                    cells = [
                        _speed(found["sardonyx"]),
                        _memory(found),
                        *(_speed(found.get(peer, {})) for peer in PEERS),
                    ]
                    yield f"| {network.title} | {optimizer} | {threads} | {network.goal:g} | {' | '.join(cells)} |"


def _speed(found: dict[str, Any]) -> str:
    if "ratio" in found:
        return f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
    said = found.get("error", "not measured")
    return next((reason for word, reason in REASONS.items() if word in said), said[:60])


def _memory(found: dict[str, Any]) -> str:
    return f"{found['sardonyx']['memory'] / found['eager']['memory']:.2f}"


if __name__ == "__main__":
    main()
