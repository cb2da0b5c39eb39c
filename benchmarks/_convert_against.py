"""How long the conversions of docs/conversions.md take, beside another checkout of Sardonyx.

    git worktree add ../before COMMIT
    python benchmarks/_convert_against.py ../before/src --every 5

The two versions take turns, each conversion in a process of its own in which the framework is imported before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
# Prints the wall time and the processor time, those of child processes included, of one conversion.
ONE = """
import json, resource, sys, tempfile, time
sys.path.append(sys.argv[1])
import conversions, sardonyx
group, name = sys.argv[2:4]
(build,) = [case for g, n, case in conversions.cases() if (g, n) == (group, name)]
source, options = build()
def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
with tempfile.TemporaryDirectory() as folder:
    before, started = spent(), time.perf_counter()
    verdict = sardonyx.convert(source, folder + "/m.onnx", **options).verdict
    print(json.dumps([time.perf_counter() - started, spent() - before, verdict]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the src folder of the other checkout")
    parser.add_argument("--every", type=int, default=1, help="measure one conversion in so many")
    given = parser.parse_args()
    sys.path.append(str(ROOT / "tests"))
    import conversions

    times: dict[str, list[tuple[float, float, float, float]]] = {}
    for group, name, _ in list(conversions.cases())[:: given.every]:
        ours, theirs = (measure(source, group, name) for source in (ROOT / "src", given.other))
        if ours is None or theirs is None:
            print(f"{group} / {name}: not converted by both", flush=True)
            continue
        times.setdefault(group, []).append((ours[0], theirs[0], ours[1], theirs[1]))
        print(f"{group} / {name}: {ours[0]:.1f} s against {theirs[0]:.1f} s", flush=True)
    print("\n| group | conversions | wall time, times the other's | processor time |\n|---|---|---|---|")
    every = [row for group in times.values() for row in group]
    for group, rows in (*times.items(), ("all", every)):
        table = np.array(rows)
        print(f"| {group} | {len(rows)} | {ratio(table[:, :2])} | {ratio(table[:, 2:])} |")


def measure(source: Path, group: str, name: str) -> list[float] | None:
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", ONE, str(ROOT / "tests"), group, name]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    return json.loads(done.stdout.splitlines()[-1])[:2] if done.returncode == 0 else None


def ratio(times: np.ndarray) -> str:
    """The ratio of the sums, with the interval of 2,000 draws of the conversions."""
    random = np.random.default_rng(0)
    draws = [times[random.integers(0, len(times), len(times))].sum(0) for _ in range(2000)]
    low, high = np.quantile([ours / theirs for ours, theirs in draws], [0.025, 0.975])
    ours, theirs = times.sum(0)
    return f"{ours / theirs:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
