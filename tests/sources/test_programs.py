"""Sources that are programs: without --trust they touch nothing outside, and what they tried is named."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from halves import split
from sardonyx import sandbox
from sardonyx.errors import SourceFailed, Untrusted
from sardonyx.sources import Original, Source, is_program, recognise

contained = pytest.mark.skipif(
    not sandbox.holds(), reason="this kernel has no Landlock or no seccomp to contain a program"
)

TORCHSCRIPT = """
import sys, torch
class Writes(torch.nn.Module):
    def forward(self, x):
        torch.save(x, "{mark}")
        return x + 1
torch.jit.script(Writes()).save("{path}")
"""
PROGRAM = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x.reshape(-1, 2) + 1
dims = {{"x": {{0: torch.export.Dim("n", min=2, max=64)}}}}
torch.export.save(torch.export.export(Net(), (torch.ones(4, 2),), dynamic_shapes=dims), "{path}")
"""
SAVED_MODEL = """
import tensorflow as tf
class Writes(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def __call__(self, x):
        tf.io.write_file("{mark}", "written")
        return {{"y": x + 1.0}}
model = Writes()
tf.saved_model.save(model, "{path}", signatures=model.__call__.get_concrete_function())
"""


def make(script: str, folder: Path, **words: object) -> None:
    """Runs a script that writes a model; from a file, because TorchScript reads its own source."""
    file = folder.parent / "make.py"
    file.write_text(script.format(**words))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def poison(path: Path, code: str) -> None:
    """Puts code in the place of every symbolic expression of a .pt2 file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = 0
    for name, data in members.items():
        if name.endswith(".json") and b'"expr_str"' in data:
            tree = json.loads(data)
            changed += replace_in(tree, "expr_str", code)
            members[name] = json.dumps(tree).encode()
    assert changed
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    path.write_bytes(whole.getvalue())


def replace_in(tree: object, key: str, value: str) -> int:
    if isinstance(tree, list):
        return sum(replace_in(item, key, value) for item in tree)
    if not isinstance(tree, dict):
        return 0
    found = 0
    for name, item in tree.items():
        if name == key:
            tree[name] = value
            found += 1
        else:
            found += replace_in(item, key, value)
    return found


def torchscript(folder: Path, mark: Path) -> Path:
    make(TORCHSCRIPT, folder, path=folder / "model.pt", mark=mark)
    return folder / "model.pt"


def program_that_runs(folder: Path, mark: Path) -> Path:
    make(PROGRAM, folder, path=folder / "model.pt2")
    poison(folder / "model.pt2", f"__import__('os').system('touch {mark}')")
    return folder / "model.pt2"


def program_that_writes(folder: Path, mark: Path) -> Path:
    make(PROGRAM, folder, path=folder / "model.pt2")
    poison(folder / "model.pt2", f"open('{mark}', 'w').write('x')")
    return folder / "model.pt2"


def saved_model(folder: Path, mark: Path) -> Path:
    make(SAVED_MODEL, folder, path=folder / "saved", mark=mark)
    return folder / "saved"


HOSTILE: dict[str, tuple[str, Callable[[Path, Path], Path]]] = {
    "torchscript that writes": ("torch", torchscript),
    "pt2 that runs a program": ("torch", program_that_runs),
    "pt2 that writes": ("torch", program_that_writes),
    "saved model that writes": ("tensorflow", saved_model),
}


@contained
@pytest.mark.heavy
@pytest.mark.parametrize("kind", split(HOSTILE, next(iter(HOSTILE))))
def test_a_program_of_a_stranger_touches_nothing_and_is_named(kind: str, tmp_path: Path) -> None:
    framework, write = HOSTILE[kind]
    pytest.importorskip(framework)
    (tmp_path / "download").mkdir()
    mark = tmp_path / "mark"
    path = write(tmp_path / "download", mark)
    command = [
        str(Path(sys.executable).with_name("sardonyx")),
        "convert",
        str(path),
        "-o",
        str(tmp_path / "download/out.onnx"),
    ]
    done = subprocess.run([*command, "--input", "x=float32[n,2]"], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr  # TorchScript does not look whether it wrote
    assert not mark.exists()
    said = (done.stdout + done.stderr).lower()
    assert any(word in said for word in ("kept from it", "permission denied", "sandbox", "not permitted")), said
    assert "traceback" not in said


@pytest.mark.rest
@contained
@pytest.mark.heavy
def test_from_python_too_it_touches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "download").mkdir()
    path = program_that_runs(tmp_path / "download", tmp_path / "mark")
    with pytest.raises(SourceFailed), Original(recognise(path)):
        pass
    assert not (tmp_path / "mark").exists()


@pytest.mark.rest
@contained
@pytest.mark.heavy
def test_an_honest_program_is_converted_in_the_sandbox_and_the_report_says_so(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    make(PROGRAM, tmp_path / "x", path=tmp_path / "model.pt2")
    command = [str(Path(sys.executable).with_name("sardonyx")), "convert", "model.pt2", "-o", "out.onnx", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sandboxed" in {finding["code"] for finding in json.loads(done.stdout)["findings"]}


def test_where_the_kernel_has_no_sandbox_a_program_needs_trust(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox, "holds", lambda: False)
    source = Source("torch", "torchscript", path=tmp_path / "model.pt")
    with pytest.raises(Untrusted, match="is a program") as caught, Original(source):
        pass
    assert "--trust" in caught.value.hint


def test_what_the_user_named_or_made_is_no_strangers_program() -> None:
    assert is_program(Source("torch", "program"))
    assert not is_program(Source("torch", "program", trust=True))
    assert not is_program(Source("torch", "program", staged="Net"))
    assert not is_program(Source("torch", "factory"))
    assert not is_program(Source("onnx", "onnx"))
