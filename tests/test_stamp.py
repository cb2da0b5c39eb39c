"""Versions come down where no operator changes its meaning, and only there."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime as ort
import pytest

from sardonyx import runtime
from sardonyx.errors import InputError
from sardonyx.model import Model
from sardonyx.stamp import fit_runtime


def stamped(opset: int, ir_version: int, body: str = "y = Relu(x)") -> Model:
    return Model.from_text(
        f'<ir_version: {ir_version}, opset_import: ["": {opset}]> g (float[n] x) => (float[n] y) {{ {body} }}'
    )


def test_versions_come_down_to_what_the_installed_runtime_loads(tmp_path: Path) -> None:
    stamped(28, 14).save(tmp_path / "m.onnx")
    loaded, limits = Model.load(tmp_path / "m.onnx"), runtime.limits()
    assert (loaded.opset, loaded.ir_version) == (limits.opset, limits.ir_version)
    ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])


def test_versions_that_are_low_enough_are_left_alone() -> None:
    model = stamped(17, 8)
    assert fit_runtime(model.ir) == []
    assert (model.opset, model.ir_version) == (17, 8)


def test_what_was_done_is_said() -> None:
    done = fit_runtime(stamped(28, 14).ir, runtime.limits("1.31"))
    assert done == ["IR version 14 -> 13", "opset 28 -> 26 of 'ai.onnx': no operator changed in between"]


def test_an_operator_that_changed_in_between_is_named_and_nothing_is_stamped() -> None:
    model = stamped(20, 9, "y = Gelu(x)")  # new in opset 20
    with pytest.raises(InputError, match=r"onnxruntime 1\.16 ends at opset 19 .*Gelu of opset 20") as caught:
        fit_runtime(model.ir, runtime.limits("1.16"))
    assert "opset 19 or lower" in caught.value.hint
    assert (model.opset, model.ir_version) == (20, 9)


def test_an_operator_inside_a_branch_counts() -> None:
    body = """c = Constant<value = bool {1}>()
      y = If (c) <then_branch = a () => (float[n] z) { z = Gelu(x) }, else_branch = b () => (float[n] w) { w = Relu(x) }>"""
    with pytest.raises(InputError, match="Gelu"):
        fit_runtime(stamped(20, 9, body).ir, runtime.limits("1.16"))


def test_an_opset_that_nobody_here_has_heard_of_is_not_restamped() -> None:
    with pytest.raises(InputError, match="Relu of opset 99"):
        fit_runtime(stamped(99, 10).ir)


def test_functions_and_the_long_name_of_the_standard_domain_are_stamped_too() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["ai.onnx": 28, "local": 1, "ai.onnx.ml": 5]>
        g (float[n] x) => (float[n] y) { y = local.f(x) }
        <opset_import: ["": 28], domain: "local"> f (a) => (b) { b = Relu(a) }
    """)
    model = Model.from_proto(proto)
    fit_runtime(model.ir, runtime.limits("1.17"))
    (function,) = model.ir.functions.values()
    assert model.opset == function.opset_imports[""] == 20
    assert model.ir.opset_imports["ai.onnx.ml"] == 4
