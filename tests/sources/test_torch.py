"""PyTorch sources: how each form is recognised and opened, and what a wrong factory says."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.errors import SourceFailed, UnknownSource, Untrusted
from sardonyx.sources import Failure, Original, recognise
from sardonyx.sources._worker import Worker, WorkerDied
from torch_runs import MODELS, ROWS, answer, line_of

NETS = """
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)
"""


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    path = tmp_path / "nets.py"
    path.write_text(NETS)
    return path


# How a file is recognised, by its bytes alone.


def test_a_zip_with_compiled_code_is_torchscript(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt", **{"m/data.pkl": b"", "m/code/__torch__.py": b"", "m/constants.pkl": b""})
    assert recognise(path).form == "torchscript"
    assert recognise(path).routes() == ("script", "dynamo", "trace")


def test_a_zip_with_an_archive_format_is_an_export_program(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt2", **{"m/archive_format": b"pt2", "m/models/model.json": b"{}"})
    assert recognise(path).form == "program"


def test_a_pickle_that_names_a_class_needs_trust(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt", **{"m/data.pkl": b"\x80\x02cmine.models\nNet\n)\x81."})
    with pytest.raises(Untrusted, match="runs whatever code") as caught:
        recognise(path)
    assert "state_dict" in caught.value.hint
    assert recognise(path, trust=True).form == "pickle-module"


@pytest.mark.parametrize("name", ["os\nsystem", "torch\nload", "torch.nn.modules.linear\nLinear", "builtins\neval"])
def test_nothing_that_runs_code_passes_as_weights(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "m.pth", **{"m/data.pkl": f"\x80\x02c{name}\n)\x81.".encode("latin-1")})
    with pytest.raises(Untrusted):
        recognise(path)


def test_bare_weights_ask_for_the_factory(tmp_path: Path) -> None:
    stored = pickle.dumps(OrderedDict(epoch=3), protocol=2)
    path = archive(tmp_path / "w.pth", **{"w/data.pkl": stored})
    with pytest.raises(UnknownSource, match="holds weights but no model") as caught:
        recognise(path)
    assert f"file.py:factory --weights {path}" in caught.value.hint


def test_a_damaged_pickle_is_not_taken_for_weights(tmp_path: Path) -> None:
    stored = pickle.dumps(OrderedDict(epoch=3), protocol=2)[:-5]
    with pytest.raises(Untrusted):
        recognise(archive(tmp_path / "w.pth", **{"w/data.pkl": stored}))


def test_safetensors_ask_for_the_factory(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"w": ROWS}, tmp_path / "w.safetensors")
    with pytest.raises(UnknownSource, match="weights"):
        recognise(tmp_path / "w.safetensors")


def test_a_folder_of_that_name_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "constants.pkl").mkdir()
    with pytest.raises(UnknownSource):
        recognise(tmp_path)


# Every form, opened and run.


@pytest.mark.rest
@pytest.mark.heavy
def test_a_factory_in_a_package_is_imported(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(nets.parent)
    monkeypatch.syspath_prepend(str(nets.parent))
    monkeypatch.setenv("PYTHONPATH", str(nets.parent))
    with Original(recognise("nets:Net")) as original:
        assert [item["name"] for item in original.describe()["inputs"]] == ["input"]


@pytest.mark.rest
@pytest.mark.heavy
def test_another_interpreter_runs_the_factory() -> None:
    with Original(recognise(f"{MODELS}:Small", python=sys.executable)) as original:
        assert answer(original, {"x": ROWS}).arrays[0].shape == (2, 2)
        assert original.versions["torch"].startswith("2.")


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("traced", [False, True])
def test_torchscript_files_answer_like_the_module(traced: bool, tmp_path: Path) -> None:
    import torch

    from torch_traps import Low, seeded

    model = seeded(Low, torch.float32)()
    image = torch.randn(2, 3, 8, 8)
    saved = torch.jit.trace(model, image) if traced else torch.jit.script(model)
    saved.save(str(tmp_path / "m.pt"))
    with Original(recognise(tmp_path / "m.pt")) as original:
        assert original.describe()["inputs"] == [{"name": "x", "dtype": None, "shape": None}]
        with torch.no_grad():
            assert np.allclose(answer(original, {"x": image.numpy()}).arrays[0], model(image).numpy(), atol=1e-6)


@pytest.mark.rest
@pytest.mark.heavy
def test_an_export_program_knows_its_inputs_and_outputs(tmp_path: Path) -> None:
    import torch

    from torch_traps import TRAPS

    model = TRAPS["dict"].factory()
    batch = {"x": torch.randn(2, 4), "scale": torch.randn(2, 1)}
    dynamic = {"x": {0: torch.export.Dim("rows")}, "scale": {0: torch.export.Dim("rows")}}
    program = torch.export.export(model, (batch,), dynamic_shapes=(dynamic,))
    torch.export.save(program, str(tmp_path / "m.pt2"))
    with Original(recognise(tmp_path / "m.pt2")) as original:
        described = original.describe()
        found = answer(original, {"batch.x": batch["x"].numpy(), "batch.scale": batch["scale"].numpy()})
        (double,) = original.predict(
            [{"batch.x": batch["x"].numpy(), "batch.scale": batch["scale"].numpy()}], double=True
        )
    assert [item["name"] for item in described["inputs"]] == ["batch.x", "batch.scale"]
    assert described["inputs"][0]["shape"][1] == 4
    assert isinstance(described["inputs"][0]["shape"][0], str)
    assert [(item["name"], item["dtype"]) for item in described["outputs"]] == [
        ("logits", "float32"),
        ("argmax", "int64"),
    ]
    assert found.names == ("logits", "argmax")
    assert isinstance(double, Failure)
    assert "fixed" in double.reason


@pytest.mark.rest
@pytest.mark.heavy
def test_a_program_with_a_pickle_inside_is_not_opened(tmp_path: Path) -> None:
    import torch
    from torch import nn

    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),)), str(tmp_path / "good.pt2"))
    marker = tmp_path / "ran"
    evil = io.BytesIO()
    torch.save(Touch(marker), evil)
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as bad:
        for item in good.infolist():
            data = evil.getvalue() if "sample_inputs" in item.filename else good.read(item)
            bad.writestr(item.filename, data)
    with pytest.raises(SourceFailed), Original(recognise(tmp_path / "evil.pt2")):
        pass
    assert not marker.exists()


class Touch:
    """A pickle that makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(self.path), "w")


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("legacy", [False, True])
def test_a_trusted_pickle_is_opened_with_the_code_beside_it(legacy: bool, nets: Path, tmp_path: Path) -> None:
    import torch

    sys.path.insert(0, str(nets.parent))
    try:
        import nets as module

        torch.save(
            {"model": module.Net().eval(), "epoch": 1}, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy
        )
    finally:
        sys.path.remove(str(nets.parent))
        del sys.modules["nets"]
    with pytest.raises(Untrusted):
        recognise(tmp_path / "m.pt")
    with Original(recognise(tmp_path / "m.pt", trust=True)) as original:
        assert answer(original, {"input": ROWS}).arrays[0].shape == (2, 2)
    nets.unlink()
    with (
        pytest.raises(SourceFailed, match="not to be found here") as caught,
        Original(recognise(tmp_path / "m.pt", trust=True)),
    ):
        pass
    assert "beside the file" in caught.value.hint


@pytest.mark.heavy
@pytest.mark.parametrize("legacy", [False, True])
def test_a_saved_state_dict_is_no_source(legacy: bool, tmp_path: Path) -> None:
    import torch

    torch.save(OrderedDict(weight=torch.ones(3)), tmp_path / "w.pth", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(UnknownSource, match="holds weights"):
        recognise(tmp_path / "w.pth")


# Factories and inputs that are wrong.


@pytest.mark.heavy
def test_a_factory_that_raises_is_named_with_its_line() -> None:
    with pytest.raises(SourceFailed, match="no such checkpoint") as caught, Original(recognise(f"{MODELS}:raises")):
        pass
    assert line_of('    raise RuntimeError("no such checkpoint")', MODELS) in caught.value.message


@pytest.mark.heavy
def test_a_factory_that_is_not_there_lists_what_is() -> None:
    with pytest.raises(SourceFailed, match=r"has no 'Smal'.*Small"), Original(recognise(f"{MODELS}:Smal")):
        pass


@pytest.mark.rest
@pytest.mark.heavy
def test_a_factory_must_give_a_module() -> None:
    with pytest.raises(SourceFailed, match="gave a dict; it must return"), Original(recognise(f"{MODELS}:wrong")):
        pass


@pytest.mark.rest
@pytest.mark.heavy
def test_a_hanging_exporter_is_ended(tmp_path: Path) -> None:
    np.savez(tmp_path / "example.npz", x=ROWS)
    with Worker("torch") as worker:
        opened = worker.ask("open", timeout=800, source=recognise(f"{MODELS}:Hangs").to_request())
        assert opened["ok"], opened
        options = {"example": str(tmp_path / "example.npz"), "dynamic": {}, "opset": 18}
        with pytest.raises(WorkerDied, match="no answer within 3 s"):
            worker.ask("export", timeout=3, route="trace", out=str(tmp_path / "m.onnx"), options=options)
        assert worker._process.returncode is not None
    assert not (tmp_path / "m.onnx").exists()
