import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import faulty_runtime
import sardonyx
from sardonyx import machine
from sardonyx.errors import BadData, BrokenModel, RuntimeRefused, UsageError
from sardonyx.model import Model
from sardonyx.run import session as sessions
from sardonyx.run.session import LEVEL_KEY, Session, Settings, options, plain, store_level, stored_level

ADD = """<ir_version: 8, opset_import: ["" : 17]>
add (float[batch,2] x) => (float[batch,2] y, float[batch,2] z) <float[2] w = {1, 2}> { y = Add(x, w)  z = Mul(x, w) }"""
BIG = 300  # more values than onnx_ir keeps inside the model when it writes external data


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model with its weights in a file beside it."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{BIG}] x, float[{BIG}] w) => (float[{BIG}] y) {{ y = Add(x, w) }}"""
    model = Model.from_text(text)
    weight = model.ir.graph.inputs.pop(1)
    weight.const_value = ir.tensor(np.arange(BIG, dtype=np.float32), name="w")
    model.ir.graph.register_initializer(weight)
    return model.save(tmp_path / "model.onnx", external_data=True)


def test_outputs_come_by_name() -> None:
    outputs = Session(Model.from_text(ADD))({"x": np.ones((1, 2), np.float32)})
    assert outputs["y"].tolist() == [[2, 3]]
    assert outputs["z"].tolist() == [[1, 2]]


def test_a_choice_of_outputs_keeps_its_order() -> None:
    session = Session(Model.from_text(ADD), outputs=["z", "y"])
    assert list(session({"x": np.ones((1, 2), np.float32)})) == session.output_names == ["z", "y"]
    with pytest.raises(UsageError, match="no output q") as caught:
        Session(Model.from_text(ADD), outputs=["q"])
    assert "y, z" in caught.value.hint


def test_wrong_inputs_are_named_before_the_runtime_sees_them() -> None:
    with pytest.raises(BadData, match=r"x: shape \[3\]"):
        Session(Model.from_text(ADD))({"x": np.ones(3, np.float32)})


def test_a_model_in_memory_runs_as_it_is_now(tmp_path: Path) -> None:
    path = Model.from_text(ADD).save(tmp_path / "add.onnx")
    model = Model.load(path)
    model.ir.graph.initializers["w"].const_value = ir.tensor(np.array([10, 20], np.float32), name="w")
    x = {"x": np.ones((1, 2), np.float32)}
    assert Session(model)(x)["y"].tolist() == [[11, 21]]
    assert Session(path)(x)["y"].tolist() == [[2, 3]]


def test_an_output_added_in_memory_is_served() -> None:
    model = Model.from_text(ADD)
    assert len(model.signature.outputs) == 2
    model.ir.graph.outputs.pop(0)
    assert Session(model).output_names == ["z"]


def test_external_data_is_found_from_a_path_and_from_memory(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outside.with_name("model.onnx.data").exists()
    monkeypatch.chdir("/")
    for model in (outside, Model.load(outside)):
        assert Session(model)({"x": np.zeros(BIG, np.float32)})["y"].tolist() == list(range(BIG))


def test_a_model_too_big_for_bytes_goes_through_a_file(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.load(outside)
    ir.external_data.load_to_model(model.ir)
    monkeypatch.setattr(sessions, "BYTES_AT_MOST", 16)
    session = Session(model)
    assert session({"x": np.zeros(BIG, np.float32)})["y"].tolist() == list(range(BIG))


def test_threads_are_those_of_the_container_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "threads", lambda: 3)
    assert options(Settings()).intra_op_num_threads == 3
    assert options(Settings(threads=1)).intra_op_num_threads == 1
    with pytest.raises(UsageError, match="0 threads"):
        Settings(threads=0)


def test_a_provider_that_is_not_here_is_named() -> None:
    with pytest.raises(UsageError, match="'tpu' is not available") as caught:
        Session(Model.from_text(ADD), Settings(provider="tpu"))
    assert "cpu" in caught.value.hint
    assert Session(Model.from_text(ADD), Settings(provider="CPUExecutionProvider")).output_names == ["y", "z"]


def test_what_the_runtime_does_not_load_is_named(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = NoSuchOperator(x) }"""
    with pytest.raises(RuntimeRefused, match="NoSuchOperator") as caught:
        Session(Model.from_text(text).save(tmp_path / "strange.onnx"))
    assert caught.value.hint == f"sardonyx check {tmp_path / 'strange.onnx'}"


def test_what_fails_while_running_names_the_innermost_node() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[n] x, float[m] z) => (float[k] y) {
        y = If<then_branch = t () => (float[k] a) { [inner] a = Add(x, z) },
               else_branch = e () => (float[k] b) { b = Identity(x) }>(c) }"""
    session = Session(Model.from_text(text), Settings(optimize=False))
    with pytest.raises(RuntimeRefused, match="failed while running: Add node 'inner': ") as caught:
        session({"c": np.array(True), "x": np.ones(2, np.float32), "z": np.ones(3, np.float32)})
    assert "ONNXRuntimeError" not in caught.value.message


def test_a_message_of_another_kind_is_only_put_on_one_line() -> None:
    assert plain(ValueError("two\n  lines")) == "two lines"


def test_types_that_numpy_does_not_exchange_are_refused_by_name() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (bfloat16[2] y) { y = Cast<to = 16>(x) }"""
    with pytest.raises(RuntimeRefused, match=r"y=bfloat16\[2\]"):
        Session(Model.from_text(text))


def test_eight_bit_floats_come_back_as_floats() -> None:
    text = (
        """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float8e4m3fn[2] y) { y = Cast<to = 17>(x) }"""
    )
    outputs = Session(Model.from_text(text))({"x": np.array([1.0, -0.5], np.float32)})
    assert outputs["y"].astype(float).tolist() == [1.0, -0.5]


@pytest.mark.parametrize("module", ["sardonyx.run.session", "sardonyx.run.once"])
def test_telemetry_is_off_before_onnxruntime_is_imported(module: str) -> None:
    code = (
        "import sys, os, importlib.abc\n"
        "class Watch(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'onnxruntime': print(os.environ.get('ORT_DISABLE_TELEMETRY'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        f"import {module}"
    )
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["1"]


LEVELS_RIGHT = {"none": True, "basic": True, "extended": False, "all": False}


@pytest.mark.parametrize("level", LEVELS_RIGHT)
def test_a_model_says_how_far_onnxruntime_may_change_its_graph(tmp_path: Path, level: str) -> None:
    model = Model.from_text(faulty_runtime.VECTOR)
    store_level(model, level)
    path = model.save(tmp_path / "m.onnx")
    assert stored_level(Model.load(path)) == (None if level == "all" else level)
    for found in (Session(path)(faulty_runtime.INPUTS), sardonyx.run(path, faulty_runtime.INPUTS).artifacts["outputs"]):
        assert (found["y"].tolist() == faulty_runtime.ANSWER) is LEVELS_RIGHT[level]


def test_a_level_that_is_asked_for_comes_before_that_of_the_model() -> None:
    model = Model.from_text(faulty_runtime.VECTOR)
    store_level(model, "basic")
    assert Session(model, Settings(level="all"))(faulty_runtime.INPUTS)["y"].tolist() != faulty_runtime.ANSWER
    assert (
        Session(model, Settings(optimize=False, level="all"))(faulty_runtime.INPUTS)["y"].tolist()
        == faulty_runtime.ANSWER
    )


def test_a_level_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="no level 'most'"):
        Settings(level="most")
    model = Model.from_text(ADD)
    model.ir.metadata_props[LEVEL_KEY] = "most"
    with pytest.raises(BrokenModel, match=LEVEL_KEY):
        Session(model)
