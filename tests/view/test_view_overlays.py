from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.view.graph import describe
from sardonyx.view.overlay import names
from sardonyx.view.overlays.error import from_ledger, relative
from sardonyx.view.overlays.time import spread

NET = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[2,4] x) => (float[2,4] y)
<float[4,4] w = {1,0,0,2, 0,1,0,0, 0,0,1,0, 3,0,0,1}, float[4] b = {1,2,3,4}> {
  [ "first" ] h = MatMul(x, w)
  [ "second" ] a = Add(h, b)
  [ "third" ] y = LeakyRelu <alpha = 0.25> (a)
}
"""
QUANTIZED = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[2,4] x) => (float[2,4] y)
<int8[4,4] w = {1,0,0,2, 0,1,0,0, 0,0,1,0, 3,0,0,1}, float s = {0.1}, int8 z = {0}> {
  [ "q" ] xq = QuantizeLinear(x, s, z)
  [ "dx" ] xd = DequantizeLinear(xq, s, z)
  [ "dw" ] wd = DequantizeLinear(w, s, z)
  [ "mm" ] h = MatMul(xd, wd)
  [ "half" ] f = Cast <to = 10> (h)
  [ "back" ] y = Cast <to = 1> (f)
}
"""


def told(model: Model, name: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The overlay, and its values by the names of the nodes."""
    found = describe(model, overlays=[name], **options)
    overlay = found["overlays"][0]
    return overlay, {found["nodes"][int(place)]["name"]: value for place, value in overlay["values"].items()}


def test_there_is_one_file_for_each_promised_overlay() -> None:
    assert names() == ["diff", "error", "precision", "provider", "time"]


def test_precision_tells_quantised_nodes_from_the_steps_around_them() -> None:
    _, found = told(Model.from_text(QUANTIZED), "precision")
    assert found == {
        "q": "quantise",
        "dx": "dequantise",
        "dw": "dequantise",
        "mm": "int8",
        "half": "float16",
        "back": "float32",
    }


def test_every_node_runs_on_the_provider_that_onnxruntime_says(tmp_path: Path) -> None:
    path = Model.from_text(NET).save(tmp_path / "net.onnx")
    _, found = told(Model.load(path), "provider")
    assert found == {"first": "CPU", "second": "CPU", "third": "CPU"}


def test_time_is_measured_and_fused_nodes_say_where_they_run() -> None:
    overlay, found = told(Model.from_text(NET), "time")
    assert found
    assert all(seconds > 0 for seconds in found.values())
    assert overlay["unit"] == "s"
    assert set(found) <= {"first", "second", "third"}


def test_a_fused_node_counts_once_at_the_node_it_is_named_after() -> None:
    kinds = {"c": "Conv", "r": "Relu", "m": "MatMul"}
    measured = [
        {"name": "fused", "op_type": "FusedConv", "seconds": 3.0, "from": ["c", "r"]},
        {"name": "m", "op_type": "MatMul", "seconds": 1.0, "from": []},
        {"name": "ReorderOutput", "op_type": "ReorderOutput", "seconds": 0.5, "from": ["c", "r", "m"]},
        {"name": "unknown", "op_type": "Copy", "seconds": 9.0, "from": []},
    ]
    seconds, texts = spread(measured, kinds)
    assert seconds == {"c": 3.0, "m": 1.5}
    assert texts["r"] == "runs inside c"


def test_a_model_does_not_differ_from_itself() -> None:
    _, found = told(Model.from_text(NET), "diff", against=Model.from_text(NET))
    assert set(found.values()) == {"same"}


def test_diff_names_the_node_that_was_changed_and_how() -> None:
    overlay, found = told(Model.from_text(NET.replace("0.25", "0.5")), "diff", against=Model.from_text(NET))
    assert found == {"first": "same", "second": "same", "third": "changed"}
    assert "alpha" in overlay["texts"]["2"]


def test_diff_finds_new_nodes_and_counts_those_that_are_gone() -> None:
    grown = NET.replace('[ "third" ] y = Leaky', '[ "extra" ] e = Neg(a)\n  [ "third" ] y = Leaky').replace(
        "(a)\n}", "(e)\n}"
    )
    _, found = told(Model.from_text(grown), "diff", against=Model.from_text(NET))
    assert found["extra"] == "new"
    overlay, _ = told(Model.from_text(NET), "diff", against=Model.from_text(grown))
    assert "gone: 1 Neg" in overlay["note"]


def test_error_begins_at_the_node_whose_weight_was_changed() -> None:
    changed = Model.from_text(NET)
    bias = changed.ir.graph.initializers["b"]
    bias.const_value = ir.Tensor(np.array([1, 2, 3, 5], np.float32), name="b")
    _, found = told(changed, "error", against=Model.from_text(NET))
    assert found["first"] == 0
    assert found["second"] > 0
    assert found["third"] > 0


@pytest.mark.parametrize("name", ["diff", "error"])
def test_an_overlay_that_compares_asks_for_something_to_compare_with(name: str) -> None:
    with pytest.raises(UsageError, match="needs a model to compare with"):
        told(Model.from_text(NET), name)


def test_models_with_other_inputs_are_no_forms_of_one_model() -> None:
    other = NET.replace("(float[2,4] x)", "(float[2,4] x, float[1] z)")
    with pytest.raises(UsageError, match="differ in their inputs"):
        told(Model.from_text(NET), "diff", against=Model.from_text(other))


def test_the_ledger_is_laid_on_the_nodes_by_the_tensors_of_the_last_stage() -> None:
    ledger = {
        "stages": ["float", "quantized"],
        "nodes": [
            {"node": "n0", "op_type": "Conv", "tensor": "t0", "tensors": {"quantized": "t0_q"},
             "error": {"float": 0.1, "quantized": 0.2}},
            {"node": "n1", "op_type": "Relu", "tensor": "t1", "error": {"float": 0.3}},
            {"node": "gone", "op_type": "Relu", "tensor": "lost", "error": {"float": 0.9}},
        ],
    }  # fmt: skip
    values = [{"name": "t0_q"}, {"name": "t1"}]
    found = from_ledger(ledger, [{"outputs": [0]}, {"outputs": [1, -1]}], values)
    assert found.values == {0: 0.2, 1: 0.3}
    assert found.texts[0] == "float 0.1, quantized 0.2"


def test_a_bundles_ledger_stands_in_for_a_reference() -> None:
    ledger = {"stages": ["float"], "nodes": [{"node": "first", "tensor": "h", "error": {"float": 0.5}}]}
    _, found = told(Model.from_text(NET), "error", ledger=ledger)
    assert found == {"first": 0.5}


@pytest.mark.parametrize(
    ("value", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.0], [2.0], 1.0),
        ([0.0], [0.0], 0.0),
        ([1.0, 1.0], [1.0], None),
        (["a"], ["a"], None),
    ],
)
def test_the_error_is_relative_to_the_size_of_the_reference(value: Any, expected: Any, error: float | None) -> None:
    assert relative(np.array(value), np.array(expected)) == error
