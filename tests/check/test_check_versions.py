"""IR version, opsets and imports: what is too new, what is doubled, and for which release."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from checking import HEAD, LOADED, REFUSED, codes, findings, subject
from sardonyx import runtime
from sardonyx.check._places import imports_of
from sardonyx.check._releases import oldest_release, release


def stamped(ir: int, opset: int, body: str = "y = Relu(x)") -> str:
    return f'<ir_version: {ir}, opset_import: ["": {opset}]> g (float[2] x) => (float[2] y) {{ {body} }}'


def doubled(*imports: tuple[str, int]) -> onnx.ModelProto:
    model = parser.parse_model(stamped(8, 17))
    del model.opset_import[:]
    for domain, version in imports:
        model.opset_import.add(domain=domain, version=version)
    return model


def test_versions_that_are_too_new_are_named_with_the_stamp_that_would_do() -> None:
    limits = runtime.limits()
    found = findings("versions", subject(stamped(limits.ir_version + 1, limits.opset + 1), load=REFUSED))
    assert [finding.code for finding in found] == ["ir-too-new", "opset-too-new"]
    assert f"stamps IR version {limits.ir_version}" in found[0].hint
    assert f"stamps opset {limits.opset}: no operator of the model changed" in found[1].hint


def test_an_operator_that_changed_rules_a_stamp_out() -> None:
    (found,) = findings("versions", subject(stamped(8, 20, "y = Gelu(x)"), ort="1.15"))
    assert found.code == "opset-too-new"
    assert "Gelu may differ there" in found.hint
    assert "--fix" not in found.hint


def test_an_opset_that_onnx_has_not_heard_of_is_not_stamped_down() -> None:
    (found,) = findings("versions", subject(stamped(8, 99), load=REFUSED))
    assert "Relu may differ there" in found.hint


def test_a_model_that_loads_is_not_too_new_whatever_the_table_says() -> None:
    assert codes("versions", subject(stamped(99, 99))) == []


def test_another_release_is_judged_by_its_own_limits() -> None:
    model = stamped(10, 21)
    assert codes("versions", subject(model, ort="1.31")) == []
    assert codes("versions", subject(model, ort="1.17")) == ["ir-too-new", "opset-too-new"]


def test_the_answer_for_a_release_says_that_nothing_was_loaded() -> None:
    answer = release(subject(stamped(8, 17), ort="1.20"), "1.20")
    assert (answer.target, answer.ok) == ("onnxruntime 1.20", True)
    assert "not loaded" in answer.reason


def test_the_answer_for_a_release_names_what_is_too_new() -> None:
    answer = release(subject(stamped(8, 20, "y = Gelu(x)"), ort="1.15"), "1.15")
    assert not answer.ok
    assert "opset 20 is above its 19 (Gelu may differ there)" in answer.reason


def test_a_model_that_is_refused_here_is_not_promised_elsewhere() -> None:
    model = subject(stamped(8, 17), load=REFUSED, ort="1.20")
    assert not release(model, "1.20").ok
    assert not oldest_release(model).ok


@pytest.mark.parametrize(
    ("ir", "opset", "oldest"), [(8, 17, "1.15"), (9, 20, "1.17"), (10, 21, "1.18"), (11, 23, "1.23")]
)
def test_the_oldest_release_comes_from_the_measured_table(ir: int, opset: int, oldest: str) -> None:
    answer = oldest_release(subject(stamped(ir, opset)))
    assert (answer.target, answer.ok) == (f"onnxruntime >= {oldest}", True)


def test_a_model_above_every_release_is_refused_by_the_newest() -> None:
    newest = list(runtime.measured())[-1]
    answer = oldest_release(subject(stamped(99, 17), load=REFUSED))
    assert (answer.target, answer.ok) == (f"onnxruntime {newest}", False)


def test_a_double_import_is_a_warning() -> None:
    (found,) = findings("imports", subject(doubled(("", 17), ("", 17))))
    assert (found.severity, found.code) == ("warning", "duplicate-opset-import")


@pytest.mark.parametrize("second", ["", "ai.onnx"])
def test_imports_that_contradict_each_other_are_an_error(second: str) -> None:
    (found,) = findings("imports", subject(doubled(("", 12), (second, 13))))
    assert (found.severity, found.code) == ("error", "conflicting-opset-import")
    assert "12, 13" in found.message


def test_single_imports_have_nothing_to_say() -> None:
    assert codes("imports", subject(doubled(("", 17), ("ai.onnx.ml", 3)))) == []


def test_a_double_import_in_a_function_is_found() -> None:
    head = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
    function = '<domain: "f", opset_import: ["": 17]> f (a) => (b) { b = Relu(a) }'
    model = parser.parse_model(f"{head} g (float[2] x) => (float[2] y) {{ y = f.f(x) }} {function}")
    model.functions[0].opset_import.add(domain="", version=17)
    (found,) = findings("imports", subject(model))
    assert found.where == "function f"


@pytest.mark.parametrize("order", [(12, 13), (13, 12)])
def test_onnxruntime_takes_the_last_of_two_imports(order: tuple[int, int]) -> None:
    """Softmax means another thing in opset 12 than in opset 13, so that its result tells which import held."""
    import numpy as np
    import onnxruntime as ort

    model = parser.parse_model(f"{HEAD} g (float[2,3,4] x) => (float[2,3,4] y) {{ y = Softmax(x) }}")
    del model.opset_import[:]
    for version in order:
        model.opset_import.add(domain="", version=version)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.ones((2, 3, 4), np.float32)})
    assert np.allclose(result, 1 / 4 if order[-1] == 13 else 1 / 12)
    assert imports_of(model.opset_import) == {"": order[-1]}
    assert LOADED.ok
