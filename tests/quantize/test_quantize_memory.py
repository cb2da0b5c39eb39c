"""Calibration in bounded memory, measured in a child: what the model takes to run, and what it takes to calibrate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
import quantizing
from sardonyx.quantize import qdq
from sardonyx.quantize.calibrate import histograms
from sardonyx.quantize.prepare import prepared
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch

def peak():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10

model = prepared(quantizing.network(channels=64, size=64))
def batches():
    random = np.random.default_rng(0)
    for _ in range(125):
        yield Batch({"x": random.standard_normal((8, 3, 64, 64), np.float32)})
class Walk:
    def __iter__(self): return batches()
session = Session(model, Settings(threads=1))
session.run_fitted(next(batches()).inputs)
alone = peak()
found = histograms(model, qdq.watched(model), Walk(), Settings(threads=1))
print(peak() - alone, sum(item.total for item in found.values()), found["x"].total)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux' /proc")
def test_a_thousand_images_take_little_more_than_one_batch() -> None:
    tests = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", CHILD, str(tests)], capture_output=True, text=True, check=True)
    above, values, inputs = map(int, done.stdout.split())
    assert inputs == 1000 * 3 * 64 * 64
    # Everything that flows through would be gigabytes; what is held is a few hundred megabytes at most.
    assert values * 4 > 5 * 10**9 / 2
    assert above < 600 << 20
