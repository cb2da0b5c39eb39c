"""--python: another interpreter has the framework and knows nothing of Sardonyx."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

NET = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()
"""
FOREST = """
import numpy
from sklearn.ensemble import RandomForestRegressor

def make():
    rows = numpy.random.default_rng(0).standard_normal((80, 4)).astype(numpy.float32)
    return RandomForestRegressor(5, random_state=0).fit(rows, rows[:, 0] * rows[:, 1])
"""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> Path:
    """An interpreter that sees our frameworks. Editable installs do not reach it, so Sardonyx is not there."""
    place = tmp_path_factory.mktemp("foreign")
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True
    )
    (Path(found.stdout.strip()) / "frameworks.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    assert subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0
    assert (
        b"No module named 'sardonyx'" in subprocess.run([python, "-c", "import sardonyx"], capture_output=True).stderr
    )
    return python


def convert(*words: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("sardonyx")), "convert", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.rest
@pytest.mark.parametrize(("code", "kind"), [(NET, "torch"), (FOREST, "sklearn")])
def test_a_model_is_converted_where_its_framework_lives(foreign, tmp_path, code, kind):
    (tmp_path / f"their_{kind}.py").write_text(code)
    done = convert(
        f"{tmp_path}/their_{kind}.py:make", "-o", tmp_path / "m.onnx", "--input", "x=float32[batch,4]", "--python", foreign,
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "agrees"
    assert (tmp_path / "m.onnx").exists()


def test_an_interpreter_without_the_framework_is_told_how_to_get_it(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    (tmp_path / "net.py").write_text(NET)
    python = tmp_path / "bare" / "bin" / "python"
    done = convert(
        f"{tmp_path}/net.py:make", "-o", tmp_path / "m.onnx", "--input", "x=float32[batch,4]", "--python", python
    )
    assert done.returncode == 2
    assert "No module named" in done.stderr
    assert f"{python} -m pip install" in done.stderr
    assert not (tmp_path / "m.onnx").exists()
