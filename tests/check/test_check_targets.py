"""Web and mobile: what was measured, what is derived, and what stands in the way."""

from __future__ import annotations

from onnx import TensorProto, helper, parser

from checking import HEAD, REFUSED, subject
from sardonyx.check._targets import mobile, web

RELU = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"


def errors(text: str) -> list[str]:
    return [finding.code for finding in web.findings(subject(text)) if finding.severity == "error"]


def test_the_table_was_measured_with_thousands_of_models() -> None:
    table = web.measured()
    assert table["models"]["both"] > 4000
    assert table["limits"].keys() == {"opset", "ml", "ir"}
    assert {"If", "Loop", "Scan", "Conv", "LSTM", "MatMul"} <= table["loads"][""].keys()
    assert {"TreeEnsembleClassifier", "ZipMap"} <= table["loads"]["ai.onnx.ml"].keys()


def test_measured_operators_run_on_the_web_and_the_reason_says_how_that_is_known() -> None:
    answer = web.runs_on(subject(RELU))
    assert (answer.target, answer.ok) == ("web", True)
    assert "measured" in answer.reason
    assert "not loaded there" in answer.reason


def test_an_operator_that_was_not_measured_is_said_to_be_so() -> None:
    head = '<ir_version: 8, opset_import: ["": 17, "acme": 1]>'
    answer = web.runs_on(subject(f"{head} g (float[2] x) => (float[2] y) {{ y = acme.Frob(x) }}"))
    assert answer.ok
    assert "not measured with Frob" in answer.reason


def test_a_model_that_does_not_load_here_is_not_promised_to_the_web() -> None:
    assert not web.runs_on(subject(RELU, load=REFUSED)).ok


def test_an_operator_that_the_web_refused_is_an_error() -> None:
    refused = next(iter(web.measured()["refused"]["com.microsoft"]))
    head = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>'
    text = f"{head} g (float[2] x) => (float[2] y) {{ y = com.microsoft.{refused}(x) }}"
    assert errors(text) == ["web-operator"]
    answer = web.runs_on(subject(text))
    assert not answer.ok
    assert refused in answer.reason


def test_a_type_that_the_web_refused_is_an_error_and_the_others_are_not() -> None:
    where = "g (bool[2] c, %s[2] x) => (%s[2] y) { y = Where(c, x, x) }"
    assert errors(f"{HEAD} {where % ('int8', 'int8')}") == ["web-operator"]
    assert errors(f"{HEAD} {where % ('float', 'float')}") == []


def test_an_input_that_javascript_cannot_pass_is_an_error() -> None:
    body = "g (bfloat16[2] x) => (float[2] y) { y = Cast<to = 1>(x) }"
    assert errors(f"{HEAD} {body}") == ["web-type"]


def test_versions_above_the_web_s_are_an_error() -> None:
    assert errors(RELU.replace("ir_version: 8", "ir_version: 99")) == ["web-versions"]


def test_external_data_is_work_for_the_page() -> None:
    model = parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Add(x, w) }}")
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    model.graph.initializer.append(weight)
    assert "web-external-data" in [finding.code for finding in web.findings(subject(model))]


def test_a_phone_is_derived_from_the_load_here_and_says_so() -> None:
    answer = mobile.runs_on(subject(RELU))
    assert answer.ok
    assert answer.reason.startswith("derived")
    assert not mobile.runs_on(subject(RELU, load=REFUSED)).ok


def test_accelerators_are_counted_by_the_lists_of_the_wheel() -> None:
    text = (
        f"{HEAD} g (float[2, 3] x) => (int64[2] y) {{ a = Relu(x) b = Det(x) y = ArgMax<axis = 1, keepdims = 0>(a) }}"
    )
    found = {finding.code: finding for finding in mobile.findings(subject(text))}
    assert found.keys() == {"coreml-coverage", "nnapi-coverage"}
    assert "2 of 3 nodes" in found["coreml-coverage"].message
    assert "the CPU runs Det" in found["coreml-coverage"].message
    assert all(finding.severity == "info" for finding in found.values())


def test_a_wheel_without_the_lists_says_nothing() -> None:
    assert mobile._operators("no_such_list.md") == frozenset()


def test_the_measuring_script_types_agree_with_the_words_of_the_checks() -> None:
    from sardonyx.check._places import type_name

    assert type_name(helper.make_tensor_type_proto(TensorProto.BFLOAT16, None)) == "tensor(bfloat16)"
    assert "bfloat16" in web.measured()["types_refused"]
