"""Bundles cross releases of onnxruntime, both ways, and verify. `make test` fetches the releases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import real
import sardonyx
from bundling import by_hand, network
from halves import split
from sardonyx.model import Model

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parent.parent.parent
RELEASES = ("1.24.4", "1.27.0")
MODELS = {
    "network": None,
    "magika": "magika/models/standard_v3_3/model.onnx",
    "voice": "silero_vad/data/silero_vad_openvino_16k.onnx",
}

THERE = """
import sys
from pathlib import Path
import onnxruntime, sardonyx
from halves import split
from bundling import by_hand, network
assert onnxruntime.__version__ == sys.argv[1]
folder, model = Path(sys.argv[2]), sys.argv[3]
report = sardonyx.verify(folder / "here")
print(report.to_text())
by_hand(folder / "there", sardonyx.Model.load(model) if model else network())
sys.exit(0 if report.ok else 1)
"""


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("name", split(MODELS, "network"))
def test_a_bundle_verifies_with_another_release(version: str, tmp_path: Path, name: str) -> None:
    packages, file = ROOT / "build" / "runtimes" / version, MODELS[name]
    path = str(real.path(file)) if file else ""
    by_hand(tmp_path / "here", Model.load(path) if path else network())
    lines = os.pathsep.join(map(str, (packages, ROOT / "src", ROOT / "tests")))
    command = [sys.executable, "-c", THERE, version, str(tmp_path), path]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": lines}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"onnxruntime: {version} here" in done.stdout
    report = sardonyx.verify(tmp_path / "there")
    assert report.verdict == "verified", report.to_text()
    assert report["made_with"]["versions"]["onnxruntime"] == version
