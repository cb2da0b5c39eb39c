"""Small bundles for tests: made by ship in seconds, or put together by hand in no time, and a ship that is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import sardonyx
from sardonyx import history
from sardonyx.bundle.contents import MODEL, canonical, digest, read_record, seal
from sardonyx.bundle.golden import keep_cases
from sardonyx.bundle.stages import machine_now
from sardonyx.files import sha256
from sardonyx.golden import GOLDEN
from sardonyx.model import Model

# Every stage, but none for longer than it takes to run at all.
QUICK: dict[str, dict[str, Any]] = {
    "optimize": {"seconds": 0.1},
    "quantize": {"time": 1},
    "bench": {"seconds": 0.02, "cold": False},
    "golden": {"cases": 2},
}
# The stages that start several processes are left out where another stage shows the same.
SKIP = ("optimize", "quantize")


def network(seed: int = 0) -> Model:
    """Two products with a Relu between them."""
    random_numbers = np.random.default_rng(seed)

    def listed(*shape: int) -> str:
        return ",".join(f"{value:.5f}" for value in random_numbers.normal(size=shape).ravel())

    return Model.from_text(
        f"""<ir_version: 10, opset_import: ["": 20]> g (float[n,8] x) => (float[n,4] y)
        <float[8,16] w = {{{listed(8, 16)}}}, float[16] b = {{{listed(16)}}}, float[16,4] v = {{{listed(16, 4)}}}>
        {{ [first] h = MatMul(x, w) [second] a = Add(h, b) [third] r = Relu(a) [fourth] y = MatMul(r, v) }}"""
    )


def write_inputs(folder: Path) -> None:
    """`net.onnx` and its labelled data `rows.npz`."""
    network().save(folder / "net.onnx")
    random_numbers = np.random.default_rng(1)
    rows = random_numbers.normal(size=(64, 8)).astype(np.float32)
    np.savez(folder / "rows.npz", x=rows, label=random_numbers.integers(0, 4, 64))


def by_hand(folder: Path, model: Model | None = None, metrics: dict[str, Any] | None = None) -> Path:
    """A bundle of one model with golden cases, without the stages that lead to it."""
    folder.mkdir()
    (model or network()).save(folder / MODEL)
    golden = keep_cases(folder / MODEL, folder / GOLDEN, cases=2)
    signature = Model.load(folder / MODEL).signature
    facts = {
        "signature": {"inputs": [spec.to_dict() for spec in signature.inputs], "outputs": []},
        "provenance": [],
        "tolerances": {"noise": golden["noise"], "cases": golden["tolerances"]},
        "metrics": metrics or {},
        "versions": history.versions(),
        "machine": machine_now(),
    }
    seal(folder, facts)
    return folder


def resealed(folder: Path, **changes: Any) -> None:
    """The record written again as if the files and facts had always been these: a forger's work, or another machine's."""
    record = {**read_record(folder), **changes}
    files = [path for path in sorted(folder.iterdir()) if path.name in record["files"]]
    record["files"] = {path.name: sha256(path) for path in files}
    record["sizes"] = {path.name: path.stat().st_size for path in files}
    record["digest"] = digest(record)
    (folder / "bundle.json").write_text(canonical(record))


SHIP = """
import sys
import sardonyx
from bundling import QUICK
print("ready", flush=True)
skip = sys.argv[4].split(",") if sys.argv[4] else []
report = sardonyx.ship(sys.argv[1], sys.argv[2], data=sys.argv[3], settings=QUICK, skip=skip)
sys.exit(0 if report.ok else 1)
"""


def kill_ships(folder: Path, kills: int, *, span: float, skip: tuple[str, ...] = (), seed: int = 0) -> dict[str, int]:
    """Ships again and again, killed at random moments, and asserts that no bundle is ever half of one.

    A run that is killed is resumed by the next; one that ends is verified and thrown away. `span` is the longest
    that a run is left alone, in seconds.
    """
    write_inputs(folder)
    bundle, moments = folder / "bundle", random.Random(seed)
    seen = {"killed": 0, "ended": 0, "resumed": 0}
    while seen["killed"] < kills:
        began_with_some = (folder / "bundle.unfinished" / "stages").is_dir()
        if _one_ship(folder, moments.uniform(0, span), skip):
            seen["ended"] += 1
            seen["resumed"] += began_with_some
            must_verify(bundle)
            assert not (folder / "bundle.unfinished").exists()
            shutil.rmtree(bundle)
            continue
        seen["killed"] += 1
        if bundle.exists():
            must_verify(bundle)
    assert _one_ship(folder, 600, skip), "what was interrupted last must still come to its end"
    must_verify(bundle)
    assert sorted(path.name for path in folder.iterdir()) == ["bundle", "net.onnx", "rows.npz"]
    return seen


def must_verify(bundle: Path) -> None:
    report = sardonyx.verify(bundle)
    assert report.verdict == "verified", report.to_text()


def _one_ship(folder: Path, seconds: float, skip: tuple[str, ...]) -> bool:
    """Whether the ship came to its end before it was killed."""
    words = [folder / "net.onnx", folder / "bundle", folder / "rows.npz", ",".join(skip)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", SHIP, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        started = time.monotonic()
        while child.poll() is None and time.monotonic() - started < seconds:
            time.sleep(0.01)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode in (0, -signal.SIGKILL)
    return child.returncode == 0
