"""The ledger finds the error where it was put, and says nothing about tensors that are gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from bundling import network
from sardonyx.bundle.ledger import added, keep_ledger, relative_error
from sardonyx.model import Model
from sardonyx.sources import Outputs

ROWS = {"x": np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)}


def saved(folder: Path, name: str, model: Model) -> Path:
    return model.save(folder / f"{name}.onnx")


def with_error(weight: str, by: float) -> Model:
    model = network()
    value = model.ir.graph.initializers[weight]
    assert value.const_value is not None
    value.const_value = ir.tensor(value.const_value.numpy() * np.float32(1 + by), name=weight)
    return model


@pytest.fixture
def ledger(tmp_path: Path) -> dict:
    paths = {
        "float": saved(tmp_path, "float", network()),
        "optimized": saved(tmp_path, "optimized", network()),
        "quantized": saved(tmp_path, "quantized", with_error("b", 0.1)),
    }
    answer = Outputs(("y",), (np.zeros((4, 4), np.float32),))
    return keep_ledger(paths, ROWS, framework=answer)


def test_every_node_has_its_error_at_every_stage(ledger: dict) -> None:
    assert ledger["stages"] == ["float", "optimized", "quantized"]
    assert ledger["reference"] == "float64"
    assert [row["node"] for row in ledger["nodes"]] == ["first", "second", "third", "fourth"]
    assert all(set(row["error"]) == set(ledger["stages"]) for row in ledger["nodes"])
    assert all(0 <= row["error"]["float"] < 1e-6 for row in ledger["nodes"])


def test_the_stage_and_the_node_that_added_the_error_are_seen(ledger: dict) -> None:
    added_by = {row["node"]: row["added"] for row in ledger["nodes"]}
    assert all(row["optimized"] == 0 for row in added_by.values())
    assert abs(added_by["first"]["quantized"]) < 1e-6, "before the fault there is none"
    assert all(added_by[node]["quantized"] > 1e-3 for node in ("second", "third", "fourth"))


def test_the_framework_is_measured_at_the_outputs(ledger: dict) -> None:
    (output,) = ledger["outputs"]
    assert output["name"] == "y"
    assert output["error"]["framework"] == pytest.approx(1), "zeros are off by the whole of the answer"
    assert output["error"]["float"] < 1e-6


def test_little_memory_gives_the_same_ledger(tmp_path: Path) -> None:
    paths = {"float": saved(tmp_path, "a", network()), "quantized": saved(tmp_path, "b", with_error("w", 0.01))}
    whole, parts = keep_ledger(paths, ROWS), keep_ledger(paths, ROWS, memory=20_000)
    assert (whole["reference"], parts["reference"]) == ("float64", "float64")
    assert whole["nodes"] == parts["nodes"]
    tiny = keep_ledger(paths, ROWS, memory=1)
    assert tiny["reference"] == "float", "without room for float64 the float model itself is the reference"
    assert [row["node"] for row in tiny["nodes"]] == [row["node"] for row in whole["nodes"]]


def test_a_tensor_that_a_stage_fused_away_has_no_error_there(tmp_path: Path) -> None:
    fused = Model.from_text(
        """<ir_version: 10, opset_import: ["": 20]> g (float[n,8] x) => (float[n,4] y)
        <float[8,16] w = {0}, float[16] b = {0}, float[16,4] v = {0}>
        { [gemm] a = Gemm(x, w, b) [third] r = Relu(a) [fourth] y = MatMul(r, v) }"""
    )
    for name, value in network().ir.graph.initializers.items():
        fused.ir.graph.initializers[name].const_value = value.const_value
    found = keep_ledger({"float": saved(tmp_path, "a", network()), "optimized": saved(tmp_path, "b", fused)}, ROWS)
    errors = {row["node"]: row["error"] for row in found["nodes"]}
    assert "optimized" not in errors["first"]
    assert errors["second"]["optimized"] < 1e-6
    assert errors["fourth"]["optimized"] < 1e-6


def test_errors_are_relative_and_zero_means_zero() -> None:
    one = np.array([3.0, 4.0], np.float32)
    assert relative_error(one, one) == 0
    assert relative_error(one, one * 1.5) == pytest.approx(0.5)
    assert relative_error(one * 0, one * 0) == 0
    assert relative_error(one * 0, one) is None
    assert relative_error(one, one[:1]) is None
    assert relative_error(one, np.array([1, 2])) is None
    assert relative_error(one, np.array([np.nan, 4.0], np.float32)) == 0


def test_a_stage_without_the_tensor_is_passed_over() -> None:
    assert added({"a": 1.0, "c": 3.0}, ["a", "b", "c"]) == {"a": 1.0, "c": 2.0}
