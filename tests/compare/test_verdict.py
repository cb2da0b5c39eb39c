"""The whole comparison: models in, report out."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import sardonyx
from sardonyx.errors import BadData, InputError, NotFound, SourceFailed, UsageError
from sardonyx.model import Model

RANDOM = np.random.default_rng(2)
HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
NET = (
    HEADER
    + """g (float[n,3] x) => (float[n,3] y) <float[3,3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}>
{ [dense] m = MatMul(x, w) [tanh] t = Tanh(m) [end] y = Softmax <axis = -1> (t) }"""
)
ROUNDED = NET.replace(
    "[dense] m = MatMul(x, w)", "[thrice] v = Mul(w, three) [dense] k = MatMul(x, v) [third] m = Div(k, three)"
).replace("0.9}>", "0.9}, float three = {3}>")


def compared(reference: str, candidate: str, **options) -> sardonyx.Report:
    return sardonyx.compare(Model.from_text(reference), Model.from_text(candidate), **options)


def test_a_model_is_equal_to_itself():
    report = compared(NET, NET)
    assert (report.verdict, report.ok) == ("equal", True)
    assert report["first_divergence"] is None
    assert report["noise"] == "exact"
    [output] = report["outputs"]
    assert {"name", "verdict", "max_abs", "max_rel", "tolerance"} <= set(output)
    assert (output["name"], output["verdict"], output["max_abs"]) == ("y", "equal", 0.0)


def test_another_way_to_round_is_rounding():
    report = compared(NET, ROUNDED)
    assert (report.verdict, report.ok) == ("rounding", True)
    [output] = report["outputs"]
    assert 0 < output["error"] < output["tolerance"] < 1e-4
    assert output["used"] == output["error"] / output["tolerance"]
    assert f"at most {output['used']:.0%} of the tolerance" in report.summary
    [table] = report.tables
    assert table.rows[0][2:5] == (output["error"], output["tolerance"], f"{output['used']:.1%}")
    assert report["noise"] == "float64"


def test_a_changed_weight_is_a_mismatch_at_its_node():
    report = compared(NET, NET.replace("0.5", "0.5001"))
    assert (report.verdict, report.ok) == ("mismatch", False)
    assert {"node", "op_type", "tensor", "source"} <= set(report["first_divergence"])
    where = report["first_divergence"]
    assert (where["node"], where["op_type"], where["tensor"], where["source"]) == ("dense", "MatMul", "m", None)


def test_without_localisation_a_mismatch_names_no_node():
    report = compared(NET, NET.replace("0.5", "0.6"), localize=False)
    assert report.verdict == "mismatch"
    assert report["first_divergence"] is None


@pytest.mark.heavy
@pytest.mark.rest
def test_given_tolerances_add_to_the_measured_one():
    changed = NET.replace("0.5", "0.5001")
    assert compared(NET, changed).verdict == "mismatch"
    assert compared(NET, changed, atol=1e-2).verdict == "rounding"
    assert compared(NET, changed, rtol=1e-2).verdict == "rounding"
    assert compared(NET, ROUNDED, atol=0.0).verdict == "rounding"
    assert compared(NET, changed, atol=1e-2)["outputs"][0]["tolerance"] >= 1e-2


@pytest.mark.heavy
@pytest.mark.rest
def test_generated_inputs_cover_seeds_edges_and_sizes_and_the_same_ones_each_time():
    report = compared(NET, NET)
    assert report["cases"] > 50
    assert compared(NET, NET)["cases"] == report["cases"]


@pytest.mark.heavy
@pytest.mark.rest
@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("Tanh(m)", "HardSigmoid <alpha = 1.0, beta = 0.0> (m)"),
        (
            "[tanh] t = Tanh(m)",
            "[one] o = Constant <value_float = 30.0> () [minus] u = Neg(o) [clip] c = Clip(m, u, o) [tanh] t = Tanh(c)",
        ),
    ],
)
def test_a_difference_that_only_edge_values_show_is_found_where_there_is_one(change, to):
    """Clipping at 30 changes nothing that a tanh would show; a saturation at one does."""
    expected = "mismatch" if "HardSigmoid" in to else "equal"
    assert compared(NET, NET.replace(change, to)).verdict == expected


@pytest.mark.heavy
@pytest.mark.rest
def test_a_fault_that_shows_on_large_inputs_only_is_found():
    linear = (
        HEADER
        + "g (float[n,3] x) => (float[n,3] y) <float low = {-20}, float high = {20}> { [clip] y = Clip(x, low, high) }"
    )
    assert compared(linear, linear.replace("{20}", "{25}"))["first_divergence"]["node"] == "clip"


def test_data_is_used_batch_by_batch():
    data = {"x": RANDOM.standard_normal((70, 3)).astype(np.float32)}
    report = compared(NET, NET, data=data)
    assert report["cases"] == 3
    assert compared(NET, NET.replace("0.5", "0.51"), data=[data, data])["cases"] == 2


def test_data_may_be_a_file(tmp_path):
    np.savez(tmp_path / "d.npz", x=RANDOM.standard_normal((4, 3)).astype(np.float32))
    assert compared(NET, NET, data=tmp_path / "d.npz").verdict == "equal"


def test_data_of_the_wrong_shape_is_named():
    with pytest.raises(BadData, match="x"):
        compared(NET, NET, data={"x": np.zeros((2, 5), np.float32)})


def test_models_may_be_files(tmp_path):
    paths = []
    for name, text in (("a", NET), ("b", NET.replace("0.5", "0.6"))):
        paths.append(Model.from_text(text).save(tmp_path / f"{name}.onnx"))
    assert sardonyx.compare(*paths).verdict == "mismatch"
    assert sardonyx.compare(str(paths[0]), paths[0]).verdict == "equal"


@pytest.mark.heavy
@pytest.mark.rest
def test_protos_and_graphs_are_taken_as_they_are():
    proto = onnx.parser.parse_model(NET)
    assert sardonyx.compare(proto, Model.from_proto(proto).ir).verdict == "equal"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotFound, match="nowhere"):
        sardonyx.compare(tmp_path / "nowhere.onnx", tmp_path / "nowhere.onnx")


def test_a_candidate_that_is_no_onnx_model_is_refused_with_the_right_order(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"\x00\x01")
    with pytest.raises((UsageError, InputError)):
        sardonyx.compare(Model.from_text(NET), tmp_path / "m.bin")
    with pytest.raises(UsageError, match="candidate"):
        sardonyx.compare(Model.from_text(NET), object())


@pytest.mark.heavy
@pytest.mark.rest
def test_other_names_are_matched_by_position_and_noted():
    renamed = (
        NET.replace("float[n,3] x)", "float[n,3] input)")
        .replace("MatMul(x", "MatMul(input")
        .replace("y", "probabilities")
    )
    report = compared(NET, renamed)
    assert report.verdict == "equal"
    notes = [finding.message for finding in report.findings or ()]
    assert any("input for x" in note for note in notes)
    assert any("probabilities for y" in note for note in notes)
    wrong = compared(NET, renamed.replace("0.5", "0.51"))
    assert wrong["first_divergence"]["node"] == "dense"


def test_outputs_in_another_order_are_matched_by_name():
    two = HEADER + "g (float[n,3] x) => (float[n,3] a, float[n,3] b) { [p] a = Neg(x) [q] b = Tanh(x) }"
    assert compared(two, two.replace("float[n,3] a, float[n,3] b", "float[n,3] b, float[n,3] a")).verdict == "equal"


def test_another_number_of_outputs_is_an_error_that_names_both():
    two = NET.replace("=> (float[n,3] y)", "=> (float[n,3] y, float[n,3] t)")
    with pytest.raises(InputError, match=r"1 outputs \(y\), the reference 2 outputs|1 outputs \(y\), the reference 2"):
        compared(two, NET)
    assert compared(NET, two).verdict == "equal", "more outputs than the reference has do no harm"


def test_another_number_of_inputs_is_an_error():
    more = NET.replace("(float[n,3] x)", "(float[n,3] x, float[n,3] z)")
    with pytest.raises(InputError, match="2 inputs"):
        compared(NET, more)


def test_another_type_is_noted():
    text = HEADER + "g (float[n,3] x) => (int64[n,3] y) { [cast] y = Cast <to = 7> (x) }"
    report = compared(
        text, text.replace("int64", "int32").replace("to = 7", "to = 6"), data={"x": np.float32([[1, 2, 3]])}
    )
    assert report.verdict == "equal"
    assert [finding.code for finding in report.findings or ()] == ["other-type"]


def test_another_shape_is_a_mismatch():
    text = (
        HEADER + "g (float[n,3] x) => (float[n,1] y) <int64[1] a = {1}> { [sum] y = ReduceSum <keepdims = 1> (x, a) }"
    )
    report = compared(text, text.replace("keepdims = 1", "keepdims = 0").replace("float[n,1] y", "float[n] y"))
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["node"] == "sum"


def test_a_candidate_that_refuses_what_the_reference_takes_is_a_mismatch():
    fixed = NET.replace("float[n,3] x", "float[1,3] x").replace("float[n,3] y", "float[1,3] y")
    report = compared(NET, fixed)
    assert report.verdict == "mismatch"
    assert "a batch of 3" in report["outputs"][0]["note"]


def test_data_that_the_reference_refuses_is_an_error():
    indexed = HEADER + "g (int64[n] i) => (float[n] y) <float[3] t = {1, 2, 3}> { y = Gather(t, i) }"
    with pytest.raises(SourceFailed, match="batch 0"):
        compared(indexed, indexed, data={"i": np.int64([9])})


def test_a_reference_that_takes_no_generated_input_asks_for_data():
    picky = HEADER + "g (float[n] x) => (float[m] y) <int64[2] s = {1000003, 7}> { y = Reshape(x, s) }"
    with pytest.raises(BadData, match="generated inputs") as error:
        compared(picky, picky)
    assert "--data" in error.value.hint


def test_nan_in_the_reference_must_be_in_the_candidate():
    logarithm = HEADER + "g (float[n,3] x) => (float[n,3] y) { [log] y = Log(x) }"
    assert compared(logarithm, logarithm).verdict == "equal"
    assert (
        compared(logarithm, logarithm.replace("[log] y = Log(x)", "[abs] a = Abs(x) [log] y = Log(a)")).verdict
        == "mismatch"
    )


@pytest.mark.heavy
@pytest.mark.rest
def test_the_maps_of_a_classifier_are_compared_and_searched_behind():
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            [
                onnx.helper.make_node("Softmax", ["x"], ["s"], name="softmax"),
                onnx.helper.make_node(
                    "ZipMap", ["s"], ["p"], name="zip", domain="ai.onnx.ml", classlabels_int64s=[0, 1]
                ),
            ],
            "g",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 2])],
            [onnx.helper.make_empty_tensor_value_info("p")],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
    )
    wrong = onnx.ModelProto()
    wrong.CopyFrom(proto)
    wrong.graph.node[0].op_type = "LogSoftmax"
    data = {"x": RANDOM.standard_normal((3, 2)).astype(np.float32)}
    assert sardonyx.compare(proto, proto, data=data).verdict == "equal"
    report = sardonyx.compare(proto, wrong, data=data)
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["node"] == "softmax"


@pytest.mark.heavy
@pytest.mark.rest
def test_a_quantised_candidate_is_a_mismatch_with_a_hint_unless_a_tolerance_is_given():
    quantised = NET.replace(
        "[tanh] t = Tanh(m)",
        "[q] i = QuantizeLinear(m, s, z) [d] j = DequantizeLinear(i, s, z) [tanh] t = Tanh(j)",
    ).replace("0.9}>", "0.9}, float s = {0.02}, uint8 z = {128}>")
    report = compared(NET, quantised)
    assert report.verdict == "mismatch"
    assert "quantized" in [finding.code for finding in report.findings or ()]
    small = {"x": 0.3 * RANDOM.standard_normal((8, 3)).astype(np.float32)}
    assert compared(NET, quantised, data=small, atol=0.02).verdict == "rounding"


@pytest.mark.heavy
@pytest.mark.rest
def test_random_numbers_are_pointed_out():
    noisy = HEADER + "g (float[n,3] x) => (float[n,3] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    report = compared(noisy, noisy)
    assert "random" in [finding.code for finding in report.findings or ()]


@pytest.mark.heavy
@pytest.mark.rest
def test_inputs_that_tell_little_are_pointed_out():
    """A sigmoid far below zero: what comes out is as small as the kernel's own error."""
    deep = (
        HEADER + "g (float[n,3] x) => (float[n,3] y) <float b = {-14}> { [add] a = Add(x, b) [sigmoid] y = Sigmoid(a) }"
    )
    other = deep.replace(
        "[sigmoid] y = Sigmoid(a)",
        "[minus] m = Neg(a) [exp] e = Exp(m) [one] o = Constant <value_float = 1.0> () "
        "[plus] p = Add(e, o) [inverse] y = Reciprocal(p)",
    )
    report = compared(deep, other, data={"x": 0.1 * RANDOM.standard_normal((50, 3)).astype(np.float32)})
    assert report.verdict == "rounding"
    assert "weak-probe" in [finding.code for finding in report.findings or ()]


def test_the_report_reads_well_and_is_strict_json():
    report = compared(NET, NET.replace("0.5", "0.51"))
    text = report.to_text(width=140)
    assert "first divergence" in text
    assert "its weight w differs in 1 of 9 values" in text
    assert text.splitlines()[-1].startswith("mismatch  first at MatMul dense")
    parsed = json.loads(report.to_json())
    assert parsed["verb"] == "compare"
    assert parsed["first_divergence"]["node"] == "dense"
