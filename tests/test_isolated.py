"""No verb runs a Python file because it lies in the current folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sardonyx import child
from sardonyx.model import Model

TEXT = '<ir_version: 10, opset_import: ["": 20]> g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }'
# Modules of Python itself, of what is installed, and of what may be installed.
NAMES = ("json", "onnx", "numpy", "onnxruntime", "openvino", "pickle", "site", "sitecustomize", "resource")
ENTRIES = {"command": [str(Path(sys.executable).with_name("sardonyx"))], "module": [sys.executable, "-m", "sardonyx"]}


@pytest.fixture
def download(tmp_path: Path) -> Path:
    """A folder with a model, and with Python files that leave a mark when they are run."""
    folder = tmp_path / "download"
    folder.mkdir()
    Model.from_text(TEXT).save(folder / "m.onnx")
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    return folder


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize("words", [["check", "m.onnx"], ["inspect", "m.onnx"], ["doctor"]], ids=lambda words: words[0])
def test_a_verb_runs_no_file_of_the_current_folder(download: Path, entry: list[str], words: list[str]) -> None:
    done = subprocess.run([*entry, *words], cwd=download, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (download.parent / "ran").exists()


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [["compare", "m.onnx", "m.onnx"], ["convert", "m.onnx", "-o", "../out.onnx"], ["bench", "m.onnx", "--seconds", "0.02"],
     ["optimize", "m.onnx", "-o", "../out.onnx", "--seconds", "2"], ["view", "m.onnx", "-o", "../page.html"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_verb_with_children_runs_no_file_of_the_current_folder(download: Path, words: list[str]) -> None:
    done = subprocess.run([*ENTRIES["command"], *words], cwd=download, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (download.parent / "ran").exists()


@pytest.mark.parametrize("path", ["", ".", "{folder}", "{folder}:"])
def test_variables_of_python_bring_no_file_of_the_current_folder(download: Path, path: str) -> None:
    environment = {**os.environ, "PYTHONPATH": path.format(folder=download), "PYTHONSTARTUP": str(download / "json.py")}
    command = child.module("sardonyx.doctor._probe")
    done = subprocess.run(command, cwd=download, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert not (download.parent / "ran").exists()


def test_a_folder_that_the_user_put_on_the_path_comes_after_the_standard_library(
    download: Path, tmp_path: Path
) -> None:
    """As everywhere in Python it comes before what is installed: the user has said so."""
    environment = {**os.environ, "PYTHONPATH": str(download), "PYTHONNOUSERSITE": "1"}
    program = "import json, _isolated; sys.path.pop(0); _isolated.add_folders(); print(json.dumps(sys.path))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(child.ISOLATED.parent)!r}); {program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    path = json.loads(done.stdout)
    assert path.index(str(Path(os.__file__).parent)) < path.index(str(download))
    assert all(path.index(str(download)) < place for place, folder in enumerate(path) if folder.endswith("-packages"))


def test_a_child_is_of_the_same_copy_of_sardonyx() -> None:
    import sardonyx

    folder = Path(child.module("x")[-3]).parent
    assert folder == Path(sardonyx.__file__).parent


FACTORY = """
import json, sklearn.tree, beside
from sklearn.linear_model import LinearRegression
def make():
    return LinearRegression().fit([[0.0], [1.0]], [0.0, beside.SLOPE])
"""


@pytest.mark.rest
@pytest.mark.heavy
def test_the_code_of_the_user_finds_its_neighbours_but_not_in_the_place_of_python_itself(download: Path) -> None:
    pytest.importorskip("sklearn")
    (download / "net.py").write_text(FACTORY)
    (download / "beside.py").write_text("SLOPE = 2.0\n")
    for name in ("onnx", "numpy", "onnxruntime"):  # beside the code that the user named, these are the user's
        (download / f"{name}.py").unlink()
    words = ["convert", "net.py:make", "-o", "../out.onnx", "--input", "x=float32[n,1]"]
    done = subprocess.run([*ENTRIES["command"], *words], cwd=download, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (download.parent / "ran").exists()
