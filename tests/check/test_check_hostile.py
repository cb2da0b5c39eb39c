"""Every bad model gets its exit code, its code and a hint, and nothing of ours dies with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hostile
from sardonyx.check._report import codes

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("name", hostile.CORPUS)
def test_a_bad_model_is_named_with_a_hint(tmp_path: Path, name: str) -> None:
    bad = hostile.CORPUS[name]
    words = [
        "check",
        str(bad.make(tmp_path)),
        "--json",
        *([] if bad.timeout is None else ["--timeout", str(bad.timeout)]),
    ]
    done = subprocess.run([sys.executable, "-m", "sardonyx", *words], capture_output=True, text=True)
    assert done.returncode == bad.exit_code, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert not report["ok"]
    found = report["findings"] if bad.exit_code == 1 else [{**report["error"], "severity": "error"}]
    named = [finding for finding in found if finding["code"] == bad.code]
    assert named, found
    assert all(finding["message"] and finding["hint"] for finding in named)
    assert all(finding["severity"] == "error" for finding in named)
    assert "Traceback" not in done.stderr
    if bad.exit_code == 1:
        assert {finding["code"] for finding in found} <= set(codes())
        assert not report["runs_on"][0]["ok"]


def test_a_cycle_is_named_node_by_node(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sardonyx", "check", str(hostile.cycle(tmp_path))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert "Relu of 'b' -> Neg of 'c' -> Add of 'a' -> Relu of 'b'" in " ".join(done.stdout.split())


def test_unsafe_external_data_is_never_read(tmp_path: Path) -> None:
    """The file behind the link is a pipe: whoever opened it would wait for ever."""
    import os

    (tmp_path / "model").mkdir()
    os.mkfifo(tmp_path / "model" / "weights.data")
    path = hostile.external(tmp_path / "model", "weights.data")
    words = [sys.executable, "-m", "sardonyx", "check", str(path), "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["external-data-linked"]
