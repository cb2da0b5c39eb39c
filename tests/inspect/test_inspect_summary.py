"""The report of inspect: its fields, what it admits to leave out, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import NotAModel, UsageError
from sardonyx.inspect.tables import amount
from sardonyx.model import Model

SMALL = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3], producer_name: "hand", producer_version: "1">
    g (float[batch,3,size,size] image) => (float[batch,4] y)
    <float[4,3,3,3] w = {%s}> {
    c = Conv<pads=[1,1,1,1]>(image, w) r = Relu(c) p = GlobalAveragePool(r) y = Flatten(p) }"""


@pytest.fixture
def small() -> Model:
    return Model.from_text(SMALL.replace("%s", ",".join(["0.5"] * 108)))


def test_every_promised_field_is_there_and_right(small: Model) -> None:
    report = sardonyx.inspect(small, sizes={"size": 8})
    assert report.ok
    assert report.verdict == "ok"
    assert report["parameters"] == 108
    assert report["macs"] == 4 * 64 * 27
    assert report["macs_exact"] is True
    assert report["opset"] == 17
    assert report["opsets"] == {"ai.onnx": 17, "ai.onnx.ml": 3}
    assert report["ir_version"] == 8
    assert report["producer"] == "hand 1"
    assert report["sizes"] == {"batch": 1, "size": 8}
    assert report["inputs"] == [
        {"name": "image", "dtype": "float32", "shape": ["batch", 3, "size", "size"], "sizes": [1, 3, 8, 8]}
    ]
    assert report["outputs"] == [{"name": "y", "dtype": "float32", "shape": ["batch", 4], "sizes": [1, 4]}]
    assert report["memory"]["weights"] == 108 * 4
    assert report["memory"]["inputs"] == 192 * 4
    assert report["memory"]["activations_peak"] == 2 * 256 * 4
    assert report["memory"]["activations_total"] == (256 + 256 + 4) * 4
    assert report["nodes"] == 4


def test_operators_come_by_cost_with_their_counts(small: Model) -> None:
    operators = sardonyx.inspect(small, sizes={"size": 8})["operators"]
    assert [row["operator"] for row in operators] == ["Conv", "Relu", "GlobalAveragePool", "Flatten"]
    assert [row["count"] for row in operators] == [1, 1, 1, 1]
    assert operators[0]["macs"] == 6912
    assert operators[1]["bytes"] == 2 * 256 * 4
    assert operators[3]["bytes"] == 0, "a reshape moves nothing"


def test_biggest_tensors_are_sorted_and_limited(small: Model) -> None:
    tensors = sardonyx.inspect(small, sizes={"size": 8}, top=3)["tensors"]
    assert [(row["name"], row["kind"], row["bytes"]) for row in tensors] == [
        ("c", "activation", 1024),
        ("r", "activation", 1024),
        ("image", "input", 768),
    ]
    assert sardonyx.inspect(small, top=0)["tensors"] == []


def test_json_is_one_strict_object(small: Model) -> None:
    assert json.loads(sardonyx.inspect(small).to_json())["verb"] == "inspect"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_the_width(small: Model, width: int) -> None:
    text = sardonyx.inspect(small).to_text(width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "parameters" in text
    assert "\nok  108 parameters" in text


def test_a_dimension_that_is_not_there_is_refused_with_those_that_are(small: Model) -> None:
    with pytest.raises(UsageError, match="no dynamic dimension width") as caught:
        sardonyx.inspect(small, sizes={"width": 3})
    assert "batch, size" in caught.value.hint


def test_a_nameless_dimension_is_sized_by_its_place() -> None:
    model = Model.from_text(
        '<ir_version: 8, opset_import: ["": 17]> g (float[?,3] x) => (float[?,3] y) { y = Relu(x) }'
    )
    assert sardonyx.inspect(model)["sizes"] == {"x.0": 1}
    assert sardonyx.inspect(model, sizes={"x.0": 5})["inputs"][0]["sizes"] == [5, 3]


def test_the_model_is_left_as_it_was(small: Model) -> None:
    before = small.to_proto().SerializeToString()
    sardonyx.inspect(small)
    assert small.to_proto().SerializeToString() == before


def test_what_is_left_out_is_said_with_the_way_to_get_it_in() -> None:
    model = Model.from_text(
        """<ir_version: 8, opset_import: ["": 17, "mine": 1]> g (float[n,3] x, float[1,2] w, bool c) => (float y, float z) {
        i = NonZero(x) f = Cast<to=1>(i) t = Transpose(f) y = MatMul(t, w)
        z = If(c) <then_branch = a () => (float[n,3] p) { p = Relu(x) }, else_branch = b () => (float[n,3] q) { q = Neg(x) }> }"""
    )
    report = sardonyx.inspect(model)
    codes = {finding.code: finding for finding in report.findings or ()}
    assert set(codes) == {"macs-at-least", "memory-at-least", "branch-costlier"}
    assert "1 MatMul" in codes["macs-at-least"].message
    assert "--size n=N" in codes["macs-at-least"].hint
    assert report["macs_exact"] is False
    assert report["uncounted"][0]["operator"] == "MatMul"
    assert "at least 0 MACs" in report.to_text()


def test_a_size_too_small_for_the_model_is_noticed() -> None:
    model = Model.from_text(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,1,n] x, float[1,1,5] w) => (float y) { y = Conv(x, w) }'
    )
    assert [finding.code for finding in sardonyx.inspect(model, sizes={"n": 4}).findings or ()] == [
        "empty-at-this-size"
    ]
    assert sardonyx.inspect(model, sizes={"n": 5}).findings == ()


def test_an_input_without_a_rank_is_admitted() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "g", [x], [y])
    report = sardonyx.inspect(Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    assert report["macs_exact"] is False
    assert report["inputs"][0]["shape"] is None


def test_faulty_graphs_are_shown_as_far_as_they_go() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("If", ["x"], ["a"]),  # no branches
        helper.make_node("Reshape", ["x", "s"], ["b"]),
        helper.make_node("Conv", ["x"], ["c"]),
        helper.make_node("Gather", ["x", "far"], ["y"], axis=9),
    ]
    short = onnx.TensorProto(name="s", data_type=TensorProto.INT64, dims=[4], raw_data=b"\0" * 8)
    far = helper.make_tensor("far", TensorProto.INT64, [1], [99])
    graph = helper.make_graph(
        nodes, "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [short, far]
    )
    report = sardonyx.inspect(Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    assert report["nodes"] == 4
    assert {row["operator"] for row in report["uncounted"]} == {"Conv"}


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    with pytest.raises(NotAModel):
        sardonyx.inspect(path)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1.00 k"), (3_504_872, "3.50 M"), (999_999, "1.00 M"), (35_740, "35.7 k")]
)  # fmt: skip
def test_amounts_have_three_digits(count: int, text: str) -> None:
    assert amount(count) == text


def test_inspect_imports_no_runtime_and_no_framework() -> None:
    code = (
        "import sys, sardonyx.inspect.summary; print([m for m in ('onnxruntime', 'torch', 'rich') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.heavy
def test_a_gigabyte_of_external_data_is_never_read(tmp_path: Path) -> None:
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[1 << 14, 1 << 14], data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": "w.bin", "offset": "0", "length": str(1 << 30)}.items():
        weight.external_data.add(key=key, value=value)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 30)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1 << 14])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1 << 14])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    code = (
        "import re, sys, sardonyx\n"
        "report = sardonyx.inspect(sys.argv[1])\n"
        "print(report['parameters'], report['macs'], re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.onnx")], capture_output=True, text=True, check=True
    )
    parameters, macs, kilobytes = map(int, shown.stdout.split())
    assert parameters == macs == 1 << 28
    assert kilobytes < 300 * 1024
