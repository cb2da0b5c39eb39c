"""Sessions that take turns in the process of `sardonyx bench` compute on the same threads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sardonyx import Model
from sardonyx.run.session import Settings, store

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[N,8] x) => (float[N,8] y) { y = Relu(x) }"""
COUNT = """
import json, sys
from sardonyx import process
import sardonyx
import onnxruntime as ort

with process.belongs_to(sys.argv[1]):
    report = sardonyx.bench(*sys.argv[3:], threads=json.loads(sys.argv[2]), seconds=0.02, cold=False, profile=True)
try:
    ort.InferenceSession(sys.argv[3])
    own = True
except Exception:
    own = False
print(json.dumps({"ok": report.ok, "own sessions": own, "failures": report.to_dict().get("failures")}))
"""


def _bench(whose: str, threads: int | None, *models: Path) -> dict[str, object]:
    words = [sys.executable, "-c", COUNT, whose, json.dumps(threads), *map(str, models)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_command_bench_shares_one_pool_and_others_keep_their_own(tmp_path: Path) -> None:
    one = Model.from_text(TEXT).save(tmp_path / "one.onnx")
    assert not _bench("bench", 2, one, one)["own sessions"]
    assert _bench("", 2, one, one)["own sessions"]
    assert _bench("ship", 2, one, one)["own sessions"]


def test_one_thread_needs_no_sharing(tmp_path: Path) -> None:
    one = Model.from_text(TEXT).save(tmp_path / "one.onnx")
    assert _bench("bench", 1, one, one)["own sessions"]


def test_models_tuned_to_different_threads_keep_their_own(tmp_path: Path) -> None:
    one = Model.from_text(TEXT)
    store(one, Settings(threads=1))
    two = Model.from_text(TEXT)
    store(two, Settings(threads=2))
    paths = (one.save(tmp_path / "one.onnx"), two.save(tmp_path / "two.onnx"))
    assert _bench("bench", None, *paths)["own sessions"]


def test_a_model_that_does_not_load_is_still_told_by_name(tmp_path: Path) -> None:
    one = Model.from_text(TEXT).save(tmp_path / "one.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x00not a model")
    words = [sys.executable, "-m", "sardonyx", "bench", one, broken, "--threads", "2", "--no-cold", "--seconds", "0.02"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "broken.onnx" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
