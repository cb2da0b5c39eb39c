"""Operators that nobody defines, or not in this opset; and nodes that no kernel computes."""

from __future__ import annotations

import pytest

from checking import HEAD, LOADED, REFUSED, codes, findings, subject
from sardonyx.check import _kernels
from sardonyx.check._places import places


def one(operator: str, *, domain: str = "", opset: int = 17, kind: str = "float") -> str:
    name = f"{domain}.{operator}" if domain else operator
    imports = f'"": {opset}' + (f', "{domain}": 1' if domain else "")
    head = f"<ir_version: 8, opset_import: [{imports}]>"
    return f"{head} g ({kind}[2, 3] x) => ({kind}[2, 3] y) {{ y = {name}(x) }}"


def test_an_unknown_operator_gets_the_nearest_name() -> None:
    (found,) = findings("operators", subject(one("Rellu"), load=REFUSED))
    assert (found.severity, found.code) == ("error", "unknown-operator")
    assert found.hint == "did the exporter mean Relu?"


def test_a_custom_operator_is_told_apart() -> None:
    (found,) = findings("operators", subject(one("Frob", domain="acme"), load=REFUSED))
    assert found.code == "unknown-operator"
    assert "acme.Frob" in found.message
    assert "custom operators" in found.hint


def test_an_operator_newer_than_the_opset_says_where_it_came() -> None:
    (found,) = findings("operators", subject(one("Gelu"), load=REFUSED))
    assert found.code == "operator-newer-than-opset"
    assert "opset 20" in found.message
    assert "--fix" in found.hint


def test_a_removed_operator_is_named() -> None:
    text = f"{HEAD} g (float[1,1,2,3] x) => (float[1,1,2,3] y) <float[4] s = {{1, 1, 1, 1}}> {{ y = Upsample(x, s) }}"
    assert codes("operators", subject(text, load=REFUSED)) == ["operator-removed"]
    assert codes("kernels", subject(text, load=REFUSED)) == []


def test_a_domain_that_is_not_imported_is_a_warning_where_the_model_loads() -> None:
    text = f"{HEAD} g (float[2, 3] x) => (float[2, 3] y) {{ y = com.microsoft.Gelu(x) }}"
    assert findings("operators", subject(text, load=REFUSED))[0].severity == "error"
    (found,) = findings("operators", subject(text))
    assert (found.severity, found.code) == ("warning", "domain-not-imported")


def test_operators_of_onnxruntime_alone_are_worth_knowing() -> None:
    (found,) = findings("operators", subject(one("Gelu", domain="com.microsoft")))
    assert (found.severity, found.code) == ("info", "nonstandard-operator")
    assert "com.microsoft.Gelu (1)" in found.message


def test_a_function_of_the_model_is_an_operator_like_any_other() -> None:
    head = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
    function = '<domain: "f", opset_import: ["": 17]> f (a) => (b) { b = Relu(a) }'
    text = f"{head} g (float[2] x) => (float[2] y) {{ y = f.f(x) }} {function}"
    for load in (LOADED, REFUSED):
        assert codes("operators", subject(text, load=load)) == []
        assert codes("kernels", subject(text, load=load)) == []


def test_an_unknown_operator_in_a_branch_and_in_a_function_is_found() -> None:
    branch = "y = If (c) <then_branch = t () => (float[2] a) { a = Frob(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }>"
    (inside,) = findings(
        "operators", subject(f"{HEAD} g (bool c, float[2] x) => (float[2] y) {{ {branch} }}", load=REFUSED)
    )
    assert "then_branch of If" in inside.where
    head = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
    function = '<domain: "f", opset_import: ["": 17]> f (a) => (b) { b = Frob(a) }'
    (within,) = findings(
        "operators", subject(f"{head} g (float[2] x) => (float[2] y) {{ y = f.f(x) }} {function}", load=REFUSED)
    )
    assert "function f" in within.where


def test_a_type_without_a_kernel_is_named() -> None:
    (found,) = findings("kernels", subject(one("Einsum", kind="uint8"), load=REFUSED))
    assert (found.severity, found.code) == ("error", "no-kernel-for-types")
    assert "tensor(uint8)" in found.message


def test_many_nodes_alike_are_one_finding() -> None:
    body = "a = Round(x) b = Round(a) y = Round(b)"
    (found,) = findings("kernels", subject(f"{HEAD} g (int8[2] x) => (int8[2] y) {{ {body} }}", load=REFUSED))
    assert "nor for 2 more like it" in found.message


def test_a_version_without_a_kernel_is_named() -> None:
    text = '<ir_version: 3, opset_import: ["": 1]> g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }'
    (found,) = findings("kernels", subject(text, load=REFUSED))
    assert found.code == "no-kernel"
    assert "Add-1" in found.message


@pytest.mark.parametrize("operator", ["Einsum", "Round"])
def test_a_model_that_loads_has_no_missing_kernel(operator: str) -> None:
    assert codes("kernels", subject(one(operator, kind="int8"))) == []


def test_float16_that_runs_as_float32_is_worth_knowing() -> None:
    text = f'{HEAD} g (float16[2, 3] x) => (float16[2, 3] y) {{ y = Einsum<equation = "ij->ij">(x) }}'
    (found,) = findings("kernels", subject(text))
    assert (found.severity, found.code) == ("info", "float16-as-float32")
    assert "Einsum (1)" in found.message


def test_an_operator_that_onnx_defines_by_others_counts_as_supported() -> None:
    runtime = _kernels.installed()
    assert runtime is not None
    (place,) = places(subject(one("CastLike")).proto)
    assert runtime.answer(place) in ("kernel", "function")


def test_a_release_that_hides_its_kernels_leaves_the_load_as_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    monkeypatch.delattr(state, "get_all_opkernel_def")
    _kernels.installed.cache_clear()
    try:
        assert codes("kernels", subject(one("Relu"), load=REFUSED)) == ["kernels-unknown"]
    finally:
        _kernels.installed.cache_clear()


@pytest.mark.heavy
@pytest.mark.rest
@pytest.mark.filterwarnings("ignore")
def test_the_kernel_table_agrees_with_real_loads_on_every_conformance_model() -> None:
    """onnx's own node tests: a node has a kernel if and only if onnxruntime finds one."""
    import onnx
    import onnxruntime as ort
    from onnx.backend.test.case.node import collect_testcases

    runtime = _kernels.installed()
    assert runtime is not None
    options = ort.SessionOptions()
    options.log_severity_level = 4
    wrong, judged = [], 0
    for case in collect_testcases(None):
        if any(entry.version > 26 for entry in case.model.opset_import):
            continue
        try:
            ort.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            loads = True
        except Exception as error:  # noqa: BLE001  only the refusals for want of a kernel count
            if "NOT_IMPLEMENTED" not in str(error):
                continue
            loads = False
        typed = onnx.shape_inference.infer_shapes(case.model)
        answers = {runtime.answer(place) for place in places(typed) if place.node.op_type != "Constant"}
        judged += 1
        if loads != (answers <= {"kernel", "function", "as float32"}) and (loads or "function" not in answers):
            wrong.append((case.name, loads, answers))
    assert judged > 1000
    assert wrong == []
