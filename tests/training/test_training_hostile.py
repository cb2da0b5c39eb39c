"""A folder of training artifacts from a stranger: names that lead out, links, types that lie, and two writers at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sardonyx
from mutating import snapshot
from sardonyx import training
from sardonyx.errors import BrokenModel, InputError, NotFound, OutputError, SardonyxError, UnsafePath
from sardonyx.model import Model
from sardonyx.training.api import CheckpointState
from sardonyx.training.manifest import Manifest

TEXT = f"""<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)
<float[4,3] w = {{{",".join(["0.1"] * 12)}}}> {{ y = MatMul(x, w) }}"""


def rows() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(16, 4)).astype(np.float32), "label": random.integers(0, 3, 16)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training") / "run"
    training.prepare(Model.from_text(TEXT), folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def every_verb(folder: Path) -> list[type[SardonyxError]]:
    """The errors of run, evaluate and export."""
    found = []
    for call in (
        lambda: sardonyx.train(folder, data=rows(), batch_size=8, restart=True),
        lambda: training.evaluate(folder, data=rows()),
        lambda: training.export(folder, folder.parent / "m.onnx"),
    ):
        try:
            call()
        except SardonyxError as error:
            found.append(type(error))
    return found


def changed(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= changes
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "sub/../../secret", "C:\\x", "a\0b", "..", ""])
@pytest.mark.parametrize("kind", ["evaluation", "step", "checkpoint"])
def test_a_manifest_that_names_files_outside_is_refused(folder: Path, kind: str, name: str) -> None:
    for file in ("eval_model.onnx", "step_model.onnx", "checkpoint"):
        shutil.copy(folder / file, folder.parent / "secret")
    before = snapshot(folder)
    changed(folder, files={**Manifest.open(folder).files, kind: name})
    with pytest.raises(UnsafePath, match=r"manifest\.json"):
        Manifest.open(folder)
    assert every_verb(folder) == [UnsafePath] * 3
    assert set(snapshot(folder)) == set(before), "nothing was written"


def test_files_that_are_links_or_pipes_are_not_opened(folder: Path) -> None:
    for file in ("eval_model.onnx", "step_model.onnx", "checkpoint", "manifest.json"):
        (folder / file).rename(folder.parent / "secret")
        for make in (lambda path: path.symlink_to(folder.parent / "secret"), os.mkfifo):
            make(folder / file)
            errors = every_verb(folder)
            assert errors, file
            assert set(errors) <= {UnsafePath, NotFound}, file
            (folder / file).unlink()
        (folder.parent / "secret").rename(folder / file)
        (folder / "last").unlink(missing_ok=True)
        (folder / "best").unlink(missing_ok=True)


def test_weights_of_a_graph_that_lie_outside_are_not_read(folder: Path) -> None:
    for file in ("eval_model.onnx", "step_model.onnx"):
        proto = onnx.load(folder / file)
        tensor = proto.graph.initializer.add(name="extra", data_type=1, dims=[1], data_location=1)
        tensor.external_data.add(key="location", value="../secret")
        onnx.save(proto, folder / file)
    (folder.parent / "secret").write_bytes(bytes(4))
    assert every_verb(folder) == [BrokenModel] * 3


def test_a_checkpoint_that_is_a_link_is_replaced_and_what_it_leads_to_stays(folder: Path) -> None:
    (folder.parent / "secret").write_text("mine")
    for name in ("last", "best"):
        (folder / name).symlink_to(folder.parent / "secret")
    assert sardonyx.train(folder, data=rows(), batch_size=8, restart=True).ok
    assert (folder.parent / "secret").read_text() == "mine"
    assert not (folder / "last").is_symlink()


STRANGE: dict[str, dict[str, Any]] = {
    "parameters beyond memory": {"parameters": [
        {"name": "w", "dtype": "float32", "shape": [1 << 40, 1 << 20], "output": "", "offset": 0}]},
    "a type that is none": {"parameters": [{"name": "w", "dtype": "O", "shape": [4, 3], "output": "", "offset": 0}]},
    "a negative size": {"moments": [
        {"name": "w.m", "dtype": "float32", "shape": [-4, 3], "output": "", "parameter": "w", "start": 0.0}]},
    "a size that varies": {"buffers": [{"name": "b", "dtype": "float32", "shape": ["n"], "output": ""}]},
    "an offset that is none": {"parameters": [
        {"name": "w", "dtype": "float32", "shape": [4, 3], "output": "", "offset": 1 << 40}]},
    "no inputs": {"inputs": None},
    "files that are a list": {"files": ["a"]},
    "a keyword too many": {"surprise": 1},
}  # fmt: skip


@pytest.mark.parametrize("fault", STRANGE)
def test_a_manifest_of_another_form_is_named(folder: Path, fault: str) -> None:
    changed(folder, **STRANGE[fault])
    with pytest.raises(BrokenModel, match=r"manifest\.json"):
        Manifest.open(folder)
    assert every_verb(folder) == [BrokenModel] * 3


def test_an_array_of_another_type_than_the_graph_writes_is_never_bound(folder: Path) -> None:
    """The runtime would write eight bytes for every four."""
    proto = onnx.load(folder / "step_model.onnx")
    (parameter,) = Manifest.open(folder).trainable
    node = next(node for node in proto.graph.node if parameter.output in node.output)
    node.output[list(node.output).index(parameter.output)] = "narrow"
    proto.graph.node.append(onnx.helper.make_node("Cast", ["narrow"], [parameter.output], to=onnx.TensorProto.DOUBLE))
    output = next(value for value in proto.graph.output if value.name == parameter.output)
    output.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    onnx.save(proto, folder / "step_model.onnx")
    with pytest.raises(BrokenModel, match=r"is tensor\(double\), not float32"):
        sardonyx.train(folder, data=rows(), batch_size=8)


@pytest.mark.parametrize(
    "progress", [{"epoch": "x"}, {"plan": {"lr": "fast"}}, {"history": 3}, {"epoch": -1}, {"surprise": 1}, []]
)
def test_a_checkpoint_whose_words_are_off_is_named(folder: Path, progress: Any) -> None:
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    state.progress = progress
    state.save(folder / "last")
    with pytest.raises(InputError, match="damaged checkpoint"):
        sardonyx.train(folder, data=rows(), resume=True)


TRAIN = """
import sys
import numpy as np
import sardonyx
def rows():
    print("training", flush=True)
    sys.stdin.read()
    yield {"x": np.ones((4, 4), np.float32), "label": np.zeros(4, np.int64)}
sardonyx.train(sys.argv[1], data=rows)
"""


@pytest.mark.heavy
def test_two_runs_on_one_folder_do_not_meet(folder: Path) -> None:
    command = [sys.executable, "-c", TRAIN, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"training\n"
        with pytest.raises(OutputError, match=rf"another process \({first.pid}\) is writing"):
            sardonyx.train(folder, data=rows())
        with pytest.raises(OutputError, match="another process"):
            training.prepare(Model.from_text(TEXT), folder)
        first.kill()
    assert sardonyx.train(folder, data=rows(), batch_size=8).ok, "the lock of a killed run is no lock"
    assert not (folder / ".lock").exists()
