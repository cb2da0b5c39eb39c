"""Whether two runs of `bench` on the same pair give the same verdict, on a quiet machine and beside a busy core.

It wants a machine that does nothing else for half an hour. Every run is a process of its own, as two runs of the command are.
Rows are kept in build/stability, and a run goes on where the last one stopped; `--again` begins anew.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx

RUNS, SECONDS, GOAL = 20, 3.0, 0.95
WIDTH, LAYERS = 256, 20
# Pairs by what the second model leaves out: the ratio of layers is the ratio of work.
PAIRS = {"the same model twice": 20, "1.1 times the work": 18, "twice the work": 10}
KEPT = Path(__file__).parent.parent / "build" / "stability"
COMMAND = str(Path(sys.executable).with_name("sardonyx"))


def main() -> None:
    print("## Stability of bench's verdict\n")
    print(
        f"`sardonyx bench A B --seconds {SECONDS:g}`, {RUNS} runs of each pair, every run in a process of its own. Agreement is"
    )
    print(
        f"the share of runs with the most frequent verdict; the goal is at least {GOAL:.0%}. A busy core is a process that"
    )
    print("computes without pause. Spread is how far the ratio of one pair moves from run to run.\n")
    print("| pair | threads | machine | ratio | spread | widest interval | verdicts | agreement |")
    print("|---|---|---|---|---|---|---|---|")
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for pair, layers in PAIRS.items():
            one, two = _write(Path(folder) / "one.onnx", LAYERS), _write(Path(folder) / "two.onnx", layers)
            for threads in (1, 2):
                for busy in (False, True):
                    kept = KEPT / f"{LAYERS}-{layers}-{threads}-{'busy' if busy else 'quiet'}.md"
                    if "--again" in sys.argv or not kept.exists():
                        kept.write_text(_row(pair, threads, busy, _runs(one, two, threads, busy)))
                    print(kept.read_text(), flush=True)


def _write(path: Path, layers: int) -> Path:
    """A model of equal layers, each a matrix product and an activation."""
    draw, nodes, weights = np.random.default_rng(0), [], []
    for layer in range(layers):
        values = draw.normal(0, 0.06, (WIDTH, WIDTH)).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(values, f"w{layer}"))
        nodes.append(onnx.helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"p{layer}"]))
        nodes.append(onnx.helper.make_node("Relu", [f"p{layer}"], [f"h{layer + 1}"]))
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", WIDTH]) for name in ("h0", f"h{layers}")
    ]
    graph = onnx.helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def _runs(one: Path, two: Path, threads: int, busy: bool) -> list[dict[str, float | str]]:
    words = [COMMAND, "bench", str(one), str(two), "--seconds", str(SECONDS), "--threads", str(threads), "--batch", "16",
             "--no-cold", "--json", "--quiet"]  # fmt: skip
    with _busy_core() if busy else _nothing():
        return [
            json.loads(subprocess.run([*words, "--seed", str(seed)], check=True, capture_output=True).stdout)["ratios"][
                0
            ]
            for seed in range(RUNS)
        ]


def _row(pair: str, threads: int, busy: bool, found: list[dict[str, float | str]]) -> str:
    verdicts = Counter(str(row["verdict"]) for row in found)
    ratios = sorted(float(row["ratio"]) for row in found)
    widest = max(float(row["high"]) / float(row["low"]) - 1 for row in found)
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    share = verdicts.most_common(1)[0][1] / len(found)
    return (
        f"| {pair} | {threads} | {'a busy core' if busy else 'quiet'} | {ratios[len(ratios) // 2]:.3f} | "
        f"{ratios[0]:.3f} to {ratios[-1]:.3f} | {widest:.1%} | {said} | {share:.0%} |"
    )


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _busy_core() -> Iterator[None]:
    """A process that computes until the block ends."""
    process = multiprocessing.get_context("spawn").Process(target=_compute, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _compute() -> None:
    parent, number = os.getppid(), 1
    while os.getppid() == parent:
        for _ in range(100_000):
            number = number * 1103515245 % 2147483647


if __name__ == "__main__":
    main()
