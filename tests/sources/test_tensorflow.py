"""TensorFlow, Keras and TFLite sources: recognised by content, run in their own process, exported by every route."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tensorflow_models
from sardonyx.errors import NotFound, UnknownSource, Untrusted
from sardonyx.signature import Signature
from sardonyx.sources import recognise
from sardonyx.sources._worker import Worker
from tensorflow_models import FUNCTIONS, KERAS
from tensorflow_opened import SIZES, Opened, agrees, dynamic

MODELS = Path(tensorflow_models.__file__)
NODE = b"\x0a\x05" + b"input" + b"\x12\x0b" + b"Placeholder"
REFUSED = {("normalized", "keras"): "makes inputs of constants", ("grouped", "keras"): "could not be inlined",
           ("grouped", "saved-model"): "could not be inlined"}  # fmt: skip


# Recognition


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("any.bin", b"\x1c\x00\x00\x00TFL3" + bytes(40), "tflite"),
        ("any.bin", b"\x89HDF\r\n\x1a\n" + bytes(40), "h5"),
        ("any.bin", b"\x0a" + bytes([len(NODE)]) + NODE, "graph"),
        ("saved_model.pb", b"\x08\x01\x12\x00", "saved-model"),
        ("damaged.keras", b"PK\x03\x04" + bytes(40), "keras"),
    ],
)
def test_a_file_is_known_by_its_bytes(tmp_path: Path, name: str, content: bytes, form: str) -> None:
    (tmp_path / name).write_bytes(content)
    source = recognise(tmp_path / name)
    assert (source.plugin, source.form) == ("tensorflow", form)
    assert source.routes()


def test_a_saved_model_is_a_folder_and_may_name_its_signature(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    assert recognise(tmp_path).form == "saved-model"
    assert recognise(f"{tmp_path}:step").attribute == "step"


def test_a_saved_model_without_its_graph_is_named(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    with pytest.raises(NotFound, match=r"no saved_model\.pb"):
        recognise(tmp_path)


def test_any_other_folder_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(UnknownSource, match="a folder with nothing in it"):
        recognise(tmp_path)


def keras_file(path: Path, config: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", b"")
    return path


def test_a_keras_file_with_bytecode_needs_trust(tmp_path: Path) -> None:
    path = keras_file(tmp_path / "m.zip", '{"class_name": "__lambda__"}')
    with pytest.raises(Untrusted) as caught:
        recognise(path)
    assert "file.py:factory" in caught.value.hint
    assert recognise(path, trust=True).form == "pickle-keras"
    assert recognise(keras_file(tmp_path / "n.zip", "{}")).form == "keras"


def test_a_live_object_is_known_by_its_classes() -> None:
    function = type("PolymorphicFunction", (), {"__module__": "tensorflow.python.types.core"})
    source = recognise(type("Function", (function,), {})())
    assert (source.plugin, source.form, source.live) == ("tensorflow", "live-function", True)


def test_recognising_imports_no_framework(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(40))
    code = f"""import sys; from sardonyx.sources import recognise
recognise({str(tmp_path / "m.tflite")!r}); recognise({f"{MODELS}:cnn"!r})
assert not {{"tensorflow", "keras"}} & set(sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


# One worker opens everything in turn: a TensorFlow process is too dear for one per test.


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker("tensorflow") as process:
        yield process


ROUTES = {**dict.fromkeys(KERAS, ("keras", "function", "saved-model")),
          **dict.fromkeys(FUNCTIONS, ("function", "saved-model"))}  # fmt: skip


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("name", [*KERAS, *FUNCTIONS])
def test_every_route_of_a_factory_agrees_or_says_why_not(worker: Worker, tmp_path: Path, name: str) -> None:
    case = {**KERAS, **FUNCTIONS}[name]
    opened = Opened(worker, f"{MODELS}:{name}", tmp_path)
    outputs = [spec["name"] for spec in opened.describe()["outputs"]]
    assert outputs in ([], list(case.outputs)), "a subclassed model and a bare function tell nothing before a call"
    for route in ROUTES[name]:
        if (name, route) in REFUSED:
            signature = Signature.parse(case.inputs)
            answer = opened.export(route, signature.sample(sizes=SIZES), dynamic=dynamic(signature))
            assert REFUSED[name, route] in answer["error"]["message"]
        else:
            session = agrees(opened, route, case.inputs)
            assert tuple(value.name for value in session.get_outputs()) == case.outputs


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["cnn", "two_in_dict_out", "lstm", "attention", "normalized", "custom_layer"])
def test_keras_models_have_a_twin_in_float64(worker: Worker, tmp_path: Path, name: str) -> None:
    opened = Opened(worker, f"{MODELS}:{name}", tmp_path)
    arrays = Signature.parse(KERAS[name].inputs).sample(sizes=SIZES)
    single, double = opened.predict(arrays), opened.predict(arrays, double=True)
    for (name, narrow), (_, wide) in zip(single, double, strict=True):
        assert wide.dtype == np.float64
        np.testing.assert_allclose(narrow, wide, rtol=1e-4, atol=1e-6, err_msg=name)
        assert not np.array_equal(narrow, wide), "a copy of the float32 answer would pass for exact"


@pytest.mark.heavy
def test_operators_without_a_rule_in_tf2onnx_keep_their_digits(worker: Worker, tmp_path: Path) -> None:
    opened = Opened(worker, f"{MODELS}:left_over", tmp_path)
    x = np.array([-3, -1, -0.9999, -1e-3, -1e-8, 0, 1e-8, 1e-3, 0.5, 2, 80, np.inf, np.nan], np.float32)
    assert opened.export("function", {"x": x})["ok"]
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    got = dict(zip((value.name for value in session.get_outputs()), session.run(None, {"x": x}), strict=True))
    for name, array in opened.predict({"x": x}):
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6 if name == "erfc" else 0, err_msg=name)


EDGES: dict[str, dict[str, np.ndarray]] = {
    "one_hot": {"x": np.array([[-4, -1, 0, 2], [1, 3, -3, 99]], np.int32)},
    "guarded_log": {"x": np.array([[-1, 0, 1e-30, 2], [np.nan, -np.inf, np.inf, -0.0]], np.float32)},
    "floor_division": {
        "x": np.array([-7, 7, 6, -6, 0, -1, 1, np.iinfo(np.int32).min, np.iinfo(np.int32).max], np.int32)
    },
}


@pytest.mark.heavy
@pytest.mark.parametrize("route", ["function", "saved-model"])
@pytest.mark.parametrize("name", EDGES)
def test_operators_that_tf2onnx_gets_wrong_are_mended(worker: Worker, tmp_path: Path, name: str, route: str) -> None:
    opened = Opened(worker, f"{MODELS}:{name}", tmp_path)
    assert opened.export(route, EDGES[name])["ok"]
    got = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, EDGES[name])
    for array, (output, expected) in zip(got, opened.predict(EDGES[name]), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-6, err_msg=output)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "opset", "words"),
    [
        ("unsupported", 18, "the operator Betainc (node"),
        ("running_total", 10, "from opset 11 on, not at 10"),
        ("counter", 18, "changes a variable while it runs"),
    ],
)
def test_a_refusal_is_one_line_that_names_the_cause(
    worker: Worker, tmp_path: Path, name: str, opset: int, words: str
) -> None:
    opened = Opened(worker, f"{MODELS}:{name}", tmp_path)
    example = {"x": np.full((2, 4) if name != "counter" else 2, 0.5, np.float32)}
    error = opened.export("function", example, opset=opset)["error"]
    assert words in error["message"]
    assert "\n" not in error["message"]


@pytest.mark.heavy
def test_names_sizes_and_opset_are_those_asked_for(worker: Worker, tmp_path: Path) -> None:
    opened = Opened(worker, f"{MODELS}:two_in_list_out", tmp_path)
    example = Signature.parse(KERAS["two_in_list_out"].inputs).sample(sizes=SIZES)
    names = {"input_names": ["right", "left"], "output_names": ["first", "score"]}
    assert opened.export("keras", example, dynamic={"left": {"0": "rows"}}, opset=15, **names)["notes"] == {"opset": 15}
    model = onnx.load(tmp_path / "m.onnx")
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 15
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("right", ["rows", 4]), ("left", [2, 6])]
    assert [value.name for value in session.get_outputs()] == ["first", "score"]
    assert opened.export("keras", example, opset=21)["notes"] == {"opset": 18}, (
        "tf2onnx writes no more; the caller upgrades"
    )
    assert (
        "3 output names for 2 outputs"
        in opened.export("keras", example, output_names=["a", "b", "c"])["error"]["message"]
    )
    assert "inference only" in opened.export("keras", example, training=True)["error"]["message"]
