"""TensorFlow and Keras originals that are random or stateful, and what their graphs tell: float64, numbers, tables, words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import telling_tensorflow
import tensorflow_models
import unsteady_tensorflow
from sardonyx.signature import Signature
from sardonyx.sources._worker import Worker
from tensorflow_models import FUNCTIONS, KERAS
from tensorflow_opened import SIZES, Opened
from unsteady_tensorflow import UNSTEADY

pytestmark = pytest.mark.heavy

MODELS, UNSTEADY_MODELS = Path(tensorflow_models.__file__), Path(unsteady_tensorflow.__file__)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One process for every test: a TensorFlow process is too dear for each."""
    with Worker("tensorflow") as process:
        yield process


@pytest.fixture(scope="module")
def lite_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lite")
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-W", "ignore", str(UNSTEADY_MODELS), str(folder)]
    subprocess.run(command, check=True, timeout=900, env=quiet, capture_output=True)
    return folder


def steadiness(opened: Opened, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    opened.save("again.npz", arrays)
    found: dict[str, Any] = opened.ask("steadiness", inputs=str(opened.folder / "again.npz"))["steadiness"]
    return found


# Random and stateful models


@pytest.mark.rest
@pytest.mark.parametrize("name", UNSTEADY)
def test_what_is_random_or_stateful_is_told_and_left_as_it_was(worker: Worker, tmp_path: Path, name: str) -> None:
    kind, changes = UNSTEADY[name]
    opened = Opened(worker, f"{UNSTEADY_MODELS}:{name}", tmp_path)
    arrays = Signature.parse(unsteady_tensorflow.inputs(name)).sample()
    first = opened.predict(arrays)
    found = steadiness(opened, arrays)
    outputs = [output for output, _ in first]
    assert found["random"] == (outputs if kind == "random" else [])
    assert found["state"] == (outputs if kind == "state" else [])
    assert found["changes"] == list(changes)
    if kind != "random" and name != "filled_table":  # what cannot be drawn again, or put back
        for _, array in (*opened.predict(arrays), *opened.predict(arrays)):
            np.testing.assert_array_equal(array, first[0][1])


def test_a_state_that_the_graph_shows_is_in_the_description(worker: Worker, tmp_path: Path) -> None:
    described = {
        name: Opened(worker, f"{UNSTEADY_MODELS}:{name}", tmp_path).describe().get("state", [])
        for name in ("stateful_gru", "counter_in_a_layer", "counted_for_nothing", "variable_that_is_overwritten")
    }
    assert described == {
        "stateful_gru": ["sequential/gru/rnn_state"],
        "counter_in_a_layer": ["own/calls"],
        "counted_for_nothing": [],
        "variable_that_is_overwritten": [],
    }


def test_operators_that_draw_are_in_the_description(worker: Worker, tmp_path: Path) -> None:
    drawn = Opened(worker, f"{UNSTEADY_MODELS}:dropout_always_on", tmp_path).describe()["random"]
    assert len(drawn) == 1
    assert "dropout" in drawn[0]
    for name in ("stateless_random", "fixed_seed", "dropout_off"):
        assert "random" not in Opened(worker, f"{UNSTEADY_MODELS}:{name}", tmp_path).describe()


def test_an_export_holds_the_state_that_the_model_was_opened_with(worker: Worker, tmp_path: Path) -> None:
    opened = Opened(worker, f"{UNSTEADY_MODELS}:attribute", tmp_path)
    example = {"x": np.ones((2, 4), np.float32)}
    ((_, first),) = opened.predict(example)
    assert opened.export("function", example)["ok"]
    (exported,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, example)
    np.testing.assert_array_equal(exported, first)
    np.testing.assert_array_equal(opened.predict(example)[0][1], first)


@pytest.mark.rest
@pytest.mark.parametrize(
    ("name", "random", "state"), [("sum", False, True), ("random", True, False), ("gather", False, False)]
)
def test_tflite_files_tell_it_too(
    worker: Worker, tmp_path: Path, lite_files: Path, name: str, random: bool, state: bool
) -> None:
    opened = Opened(worker, lite_files / f"{name}.tflite", tmp_path)
    arrays = {"x": np.ones((2, 4), np.float32) if name != "gather" else np.array([0, 5, 6], np.int32)}
    first, again = opened.predict(arrays), opened.predict(arrays)
    found = steadiness(opened, arrays)
    assert (bool(found["random"]), bool(found["state"])) == (random, state)
    assert random or np.array_equal(first[0][1], again[0][1])
    if name == "sum":
        assert "changes a variable" in opened.export("tflite", arrays)["error"]["message"]
    if name == "gather":
        described = opened.describe()
        assert (described["values"], described["tables"]) == ({"x": [4.0]}, {"x": 7})
    error = opened.ask("predict", inputs=[str(tmp_path / "in.npz")], double=True)["outputs"][0]["error"]
    assert error["type"] == "NotImplementedError"


@pytest.mark.rest
def test_a_choice_in_a_tflite_file_keeps_the_side_that_is_not_taken_out(
    worker: Worker, tmp_path: Path, lite_files: Path
) -> None:
    opened = Opened(worker, lite_files / "guarded.tflite", tmp_path)
    arrays = {"x": np.array([[-1, 0, 1e-30, 2], [5, -3, 0.5, 7]], np.float32)}
    assert opened.export("tflite", arrays)["ok"]
    (exported,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, arrays)
    np.testing.assert_allclose(exported, opened.predict(arrays)[0][1], rtol=1e-6)


# float64


@pytest.mark.parametrize("name", [*KERAS, *FUNCTIONS])
def test_every_graph_answers_in_float64(worker: Worker, tmp_path: Path, name: str) -> None:
    case = {**KERAS, **FUNCTIONS}[name]
    opened = Opened(worker, f"{MODELS}:{name}", tmp_path)
    arrays = Signature.parse(case.inputs).sample(sizes=SIZES)
    single, double = opened.predict(arrays), opened.predict(arrays, double=True)
    assert [output for output, _ in single] == [output for output, _ in double]
    for (output, narrow), (_, wide) in zip(single, double, strict=True):
        assert wide.dtype == (np.float64 if narrow.dtype.kind == "f" else narrow.dtype)
        np.testing.assert_allclose(narrow, wide, rtol=1e-4, atol=1e-6, err_msg=output)


@pytest.mark.parametrize("name", ["old_normalization", "half", "drawn_with_a_seed"])
def test_what_has_no_float64_is_computed_around(worker: Worker, tmp_path: Path, name: str) -> None:
    opened = Opened(worker, f"{telling_tensorflow.__file__}:{name}", tmp_path)
    arrays = {"x": np.random.default_rng(0).normal(size=(2, 4, 4, 3)).astype(np.float32)}
    ((_, narrow),), ((_, wide),) = opened.predict(arrays), opened.predict(arrays, double=True)
    assert wide.dtype == np.float64
    np.testing.assert_allclose(
        narrow, wide, rtol=1e-2 if name == "half" else 1e-5, atol=1e-2 if name == "half" else 1e-5
    )
    assert not np.array_equal(narrow, wide), "a copy of the float32 answer would pass for exact"


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("knows_its_type", (2, 4), "in float64 it computes another"),
        ("step_without_float64", (2, 4, 4, 3), "the operator LRN has no float64"),
    ],
)
def test_what_cannot_be_exact_is_not_taken_for_it(
    worker: Worker, tmp_path: Path, name: str, shape: tuple[int, ...], words: str
) -> None:
    opened = Opened(worker, f"{telling_tensorflow.__file__}:{name}", tmp_path)
    opened.save("in.npz", {"x": np.ones(shape, np.float32)})
    result = opened.ask("predict", inputs=[str(tmp_path / "in.npz")], double=True)["outputs"][0]
    assert words in result["error"]["message"]


# What a graph compares its inputs with


@pytest.mark.parametrize("name", telling_tensorflow.TELLING)
def test_what_inputs_are_compared_with_is_in_the_description(worker: Worker, tmp_path: Path, name: str) -> None:
    opened = Opened(worker, f"{telling_tensorflow.__file__}:{name}", tmp_path)
    described = opened.describe()
    for key, expected in telling_tensorflow.TELLING[name].items():
        found = described[key]
        if key == "values":
            for given, numbers in expected.items():
                assert all(any(abs(n - value) < 1e-4 for value in found[given]) for n in numbers), found
        else:
            assert found == expected


# Python code of functions


def test_the_code_of_a_function_is_watched_though_a_graph_answers(worker: Worker, tmp_path: Path) -> None:
    opened = Opened(worker, f"{telling_tensorflow.__file__}:python_branch", tmp_path)
    opened.save("in.npz", {"x": np.ones((2, 4), np.float32)})
    request = {"inputs": [str(tmp_path / "in.npz")], "cover": True}
    (result,) = opened.ask("predict", **request)["outputs"]
    branches = opened.ask("branches")["branches"]
    assert [(branch["text"], branch["taken"]) for branch in branches] == [
        ("if tf.reduce_sum(x) > 3:  # the branch", [False, True])
    ]
    assert result["reached"]


# Refusals


@pytest.mark.parametrize("name", telling_tensorflow.REFUSED)
def test_a_refusal_says_what_is_wrong_and_what_to_do(worker: Worker, tmp_path: Path, name: str) -> None:
    route, words, hint = telling_tensorflow.REFUSED[name]
    opened = Opened(worker, f"{telling_tensorflow.__file__}:{name}", tmp_path)
    x = np.array([["a"], ["b"]]) if "text" in name else np.ones((2, 4), np.float32)
    error = opened.export(route, {"x": x}, dynamic={"x": {0: "batch"}})["error"]
    assert words in error["message"]
    assert hint in error["hint"]
    assert "\n" not in error["message"]


@pytest.mark.rest
def test_a_file_with_an_unknown_class_says_which(worker: Worker, tmp_path: Path) -> None:
    code = f"""import sys; sys.path.insert(0, {str(MODELS.parent)!r}); import tensorflow_models
tensorflow_models.custom_layer().save({str(tmp_path / "gate.keras")!r})"""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, timeout=900, env=quiet, capture_output=True
    )
    error = Opened(worker, tmp_path / "gate.keras", tmp_path).error()
    assert "holds Gate, a class that is not Keras' own" in error["message"]
    assert "--weights" in error["hint"]
