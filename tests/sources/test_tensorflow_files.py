"""TensorFlow, Keras and TFLite files: converted by every route, refused with a reason, and run in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import real
import tensorflow_models
from sardonyx.signature import Signature
from sardonyx.sources import Exported, Original, recognise
from sardonyx.sources._worker import Worker
from tensorflow_models import KERAS, REAL
from tensorflow_opened import SIZES, Opened, agrees

MODELS = Path(tensorflow_models.__file__)
IMAGE = ("image=float32[batch,12,12,3]",)
LOOP = ("x=float32[batch,4]",)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker("tensorflow") as process:
        yield process


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-W", "ignore", str(MODELS), str(folder)]
    subprocess.run(command, check=True, env=quiet, capture_output=True)
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "route", "inputs"),
    [
        ("cnn.keras", "keras", IMAGE),
        ("cnn.h5", "function", IMAGE),
        ("cnn", "saved-model", IMAGE),
        ("cnn", "function", IMAGE),
        ("cnn", "v1-loader", IMAGE),
        ("cnn/saved_model.pb", "saved-model", IMAGE),
        ("cnn.pb", "v1-loader", IMAGE),
        ("cnn.pb", "function", IMAGE),
        ("cnn.tflite", "tflite", IMAGE),
        ("loop:step", "saved-model", LOOP),
        ("loop:step", "function", LOOP),
        ("loop.pb", "v1-loader", LOOP),
        ("words", "saved-model", ("words=string[batch,3]",)),
    ],
)
def test_a_file_converts_and_agrees(
    worker: Worker, files: Path, tmp_path: Path, name: str, route: str, inputs: tuple[str]
) -> None:
    opened = Opened(worker, f"{files}/{name}", tmp_path)
    described = [(spec["name"], spec["dtype"], tuple(spec["shape"])) for spec in opened.describe()["inputs"]]
    assert described == [(spec.name, spec.dtype, spec.shape) for spec in Signature.parse(inputs).inputs]
    assert route in recognise(f"{files}/{name}").routes()
    agrees(opened, route, inputs)


@pytest.mark.heavy
def test_int8_tflite_gives_the_same_integers(worker: Worker, files: Path, tmp_path: Path) -> None:
    opened = Opened(worker, files / "cnn_int8.tflite", tmp_path)
    output = opened.describe()["outputs"][0]
    assert (output["dtype"], output["scale"], output["zero_point"]) == ("int8", 1 / 256, -128)
    arrays = {"image": np.random.default_rng(0).integers(-128, 128, (32, 12, 12, 3)).astype(np.int8)}
    assert opened.export("tflite", arrays, dynamic={"image": {0: "batch"}})["ok"]
    (got,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, arrays)
    ((_, expected),) = opened.predict(arrays)
    assert len(np.unique(expected)) > 10, "the answers differ among themselves"
    assert np.abs(got.astype(int) - expected).max() <= 1, "one step of the output's scale"


@pytest.mark.heavy
def test_weights_fill_a_factory_and_nothing_else(worker: Worker, files: Path, tmp_path: Path) -> None:
    weights = files / "cnn.weights.h5"
    arrays = Signature.parse(IMAGE).sample(sizes=SIZES)
    filled = Opened(worker, f"{MODELS}:cnn_of_other_weights", tmp_path, weights=weights).predict(arrays)
    plain = Opened(worker, f"{MODELS}:cnn_of_other_weights", tmp_path).predict(arrays)
    expected = Opened(worker, files / "cnn.keras", tmp_path).predict(arrays)
    np.testing.assert_array_equal(filled[0][1], expected[0][1])
    assert not np.array_equal(plain[0][1], expected[0][1])
    assert (
        "fits Keras models only" in Opened(worker, files / "cnn.tflite", tmp_path, weights=weights).error()["message"]
    )
    assert Opened(worker, f"{MODELS}:lstm", tmp_path, weights=weights).error()["message"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("loop", "has no signature 'serving_default'", "it has again, step"),
        ("loop:nowhere", "has no signature 'nowhere'", "it has again, step"),
        ("unsigned", "has no signature", "signatures="),
        ("flex.tflite", "holds FlexMatrixInverse, an operator beyond TFLite's own", "SavedModel"),
        ("custom.tflite", "holds Betainc, an operator beyond TFLite's own", "SavedModel"),
        ("lambda.h5", "holds the bytecode of a Python lambda", "--trust"),
        ("cnn.weights.h5", "holds weights without their model", "--weights"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    worker: Worker, files: Path, tmp_path: Path, name: str, message: str, hint: str
) -> None:
    error = Opened(worker, f"{files}/{name}", tmp_path).error()
    assert message in error["message"]
    assert hint in error["hint"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["cnn.keras", "cnn.h5", "cnn.pb", "cnn.tflite", "cnn/saved_model.pb"])
def test_half_a_file_is_an_error_of_one_line(worker: Worker, files: Path, tmp_path: Path, name: str) -> None:
    whole = (files / name).read_bytes()
    (tmp_path / Path(name).name).write_bytes(whole[: len(whole) // 2])
    error = Opened(worker, tmp_path / Path(name).name, tmp_path).error()
    assert error["message"]
    assert "\n" not in error["message"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["lambda.keras", "lambda.h5"])
def test_bytecode_runs_once_it_is_trusted(worker: Worker, files: Path, tmp_path: Path, name: str) -> None:
    agrees(Opened(worker, files / name, tmp_path, trust=True), "keras", KERAS["with_lambda"].inputs)


# Real models

REAL_ROUTES = {
    "basic_pitch/saved_models/icassp_2022/nmp": "v1-loader",
    "basic_pitch/saved_models/icassp_2022/nmp.tflite": "tflite",
    "cifar_10_model/trained_models/cnn_model.h5": "keras",
    "fer/data/emotion_model.hdf5": "function",
}


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("name", REAL_ROUTES)
def test_real_models_agree(worker: Worker, tmp_path: Path, name: str) -> None:
    agrees(Opened(worker, real.path(name), tmp_path), REAL_ROUTES[name], REAL[name], tolerance=1e-4)


@pytest.mark.heavy
def test_a_saved_model_that_only_the_graph_loader_opens_says_so_in_its_refusal(worker: Worker, tmp_path: Path) -> None:
    name = "basic_pitch/saved_models/icassp_2022/nmp"
    opened = Opened(worker, real.path(name), tmp_path)
    assert [spec["name"] for spec in opened.describe()["outputs"]] == ["contour", "note", "onset"]
    answer = opened.export("saved-model", Signature.parse(REAL[name]).sample())
    assert "older Keras" in answer["error"]["message"]


# The whole way, each export in a process of its own


@pytest.mark.rest
@pytest.mark.heavy
def test_an_original_answers_and_exports_in_other_processes(files: Path, tmp_path: Path) -> None:
    arrays = Signature.parse(IMAGE).sample(sizes=SIZES)
    with Original(recognise(files / "cnn.keras")) as original:
        assert {"keras", "tf2onnx"} <= set(original.versions)
        (answer,) = original.predict([arrays])
        options = {"opset": 18, "input_names": [], "output_names": [], "training": False}
        done = original.export(
            "saved-model", tmp_path / "m.onnx", example=arrays, dynamic={"image": {0: "batch"}}, **options
        )
    assert isinstance(done, Exported)
    assert done.failure is None
    assert done.path == tmp_path / "m.onnx"
    (got,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, arrays)
    np.testing.assert_allclose(got, answer.arrays[0], rtol=1e-5, atol=1e-6)  # type: ignore[union-attr]


LIVE = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np, tensorflow_models as models
from sardonyx.errors import SourceFailed
from sardonyx.sources import Original, recognise

def forms(found):
    source = recognise(found)
    with Original(source) as original:
        names = [spec["name"] for spec in original.describe()["inputs"]]
        (answer,) = original.predict([{{names[0]: np.ones((2, 6), np.float32)}}])
        expected = np.asarray(found(np.ones((2, 6), np.float32)))
        np.testing.assert_allclose(answer.arrays[0], expected, rtol=1e-5, atol=1e-6)
        return source.form, original.source.form, str(original.source)

assert forms(models.plain()) == ("live-keras", "keras", "Sequential")
assert forms(models.with_lambda()) == ("live-custom", "saved-model", "Sequential")
assert forms(models.module())[:2] == ("live-function", "saved-model")
for unknown, words in ((models.subclassed(), "has not been built"), (models.no_signature(), "which inputs")):
    try:
        Original(recognise(unknown)).__enter__()
    except SourceFailed as error:
        assert words in error.message, error.message
    else:
        raise AssertionError("it opened")
"""


@pytest.mark.heavy
@pytest.mark.rest
def test_live_objects_are_saved_and_opened_in_another_process() -> None:
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    code = LIVE.format(tests=str(MODELS.parent))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
