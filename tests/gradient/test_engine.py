"""The engine: names, seeds, sums, zeros, errors, and graphs that are left alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from sardonyx.errors import InputError, NoGradient, NotFound, UsageError
from sardonyx.gradient.engine import Blocker, blockers, differentiate
from sardonyx.model import Model

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def _model(body: str, head: str = HEAD) -> Model:
    return Model.from_text(f"{head}\n{body}")


def _run(model: Model, **inputs: object) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(model.to_proto().SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


MLP = """mlp (float[N,4] x, int64[N] label) => (float loss)
    <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] b = {0.1,0.2,0.3}> {
    h = MatMul (x, w)
    z = Add (h, b)
    loss = SoftmaxCrossEntropyLoss (z, label)
}"""


def test_cross_entropy_of_a_linear_layer_with_any_batch() -> None:
    gradient = differentiate(_model(MLP), wrt=["w", "b"])
    assert [value.name for value in gradient.ir.graph.outputs] == ["loss", "w_grad", "b_grad"]
    for batch in (1, 5):
        x = np.random.default_rng(batch).normal(size=(batch, 4)).astype(np.float32) / 9
        label = np.arange(batch) % 3
        found = _run(gradient, x=x, label=label)
        z = x @ np.arange(1, 13).reshape(4, 3) + np.array([0.1, 0.2, 0.3])
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(batch), label] -= 1
        np.testing.assert_allclose(found["b_grad"], p.sum(0) / batch, atol=1e-6)
        np.testing.assert_allclose(found["w_grad"], x.T @ p / batch, atol=1e-6)


def test_initializers_stay_and_the_given_model_is_left_alone() -> None:
    model = _model(MLP)
    before = model.to_proto().SerializeToString()
    gradient = differentiate(model, wrt=["w"])
    assert model.to_proto().SerializeToString() == before
    assert {"w", "b"} <= set(gradient.ir.graph.initializers)
    assert gradient.history[-1].verb == "differentiate"


def test_only_standard_operators_and_the_opset_of_the_model() -> None:
    gradient = differentiate(_model(MLP), wrt=["w", "b", "x"])
    assert {node.domain for node in gradient.ir.graph} == {""}
    assert gradient.opset == 20
    onnx.checker.check_model(gradient.to_proto(), full_check=True)


def test_given_output_gradients_become_inputs() -> None:
    model = _model("m (float[2] x) => (float[2] y, float[2] z) { y = Exp (x) z = Mul (x, x) }")
    gradient = differentiate(model, wrt=["x"], output_gradients=["y", "z"], keep_outputs=False)
    assert [value.name for value in gradient.ir.graph.inputs] == ["x", "y_grad", "z_grad"]
    x, a, b = (np.array(v, np.float32) for v in ([0.5, 2], [1, 10], [3, 0]))
    np.testing.assert_allclose(_run(gradient, x=x, y_grad=a, z_grad=b)["x_grad"], a * np.exp(x) + 2 * x * b, rtol=1e-6)


def test_a_value_read_many_times_gets_the_sum() -> None:
    model = _model(
        "m (float[2] x) => (float y) { a = Mul (x, x) b = Add (a, x) c = Sum (b, x, a) y = ReduceSum <keepdims=0> (c) }"
    )
    x = np.array([1.5, -2], np.float32)
    np.testing.assert_allclose(_run(differentiate(model, wrt=["x"]), x=x)["x_grad"], 4 * x + 2)


def test_what_the_loss_does_not_depend_on_has_zeros() -> None:
    model = _model(
        "m (float[2] x, float[N] w) => (float y) { i = Floor (w) s = ReduceSum <keepdims=0> (x)"
        "t = ReduceSum <keepdims=0> (i) y = Add (s, t) }"
    )
    found = _run(differentiate(model, wrt=["w", "x"]), x=np.ones(2, np.float32), w=np.ones(3, np.float32))
    assert found["w_grad"].tolist() == [0, 0, 0]
    assert found["x_grad"].tolist() == [1, 1]


def test_the_gradient_of_a_gradient() -> None:
    model = _model("m (float[2] x) => (float y) { c = Mul (x, x) d = Mul (c, x) y = ReduceSum <keepdims=0> (d) }")
    first = differentiate(model, wrt=["x"], keep_outputs=False)
    second = differentiate(first, wrt=["x"], output_gradients=["x_grad"], suffix="_twice")
    x = np.array([1.5, -2], np.float32)
    found = _run(second, x=x, x_grad_twice=np.ones(2, np.float32))
    np.testing.assert_allclose(found["x_grad"], 3 * x * x)
    np.testing.assert_allclose(found["x_twice"], 6 * x)


def test_relu_stops_an_infinite_gradient() -> None:
    model = _model(
        "m (float[N] x) => (float s) { y = Relu (x) w = Identity (y) r = Sqrt (w) s = ReduceSum <keepdims = 0> (r) }"
    )
    found = _run(differentiate(model, wrt=["x"]), x=np.array([-1, 4], np.float32))["x_grad"]
    np.testing.assert_array_equal(found, np.array([0, 0.25], np.float32))


def test_an_intermediate_value_can_be_asked_for() -> None:
    gradient = differentiate(_model(MLP), wrt=["z"], keep_outputs=False)
    found = _run(gradient, x=np.zeros((2, 4), np.float32), label=np.array([0, 1]))
    np.testing.assert_allclose(found["z_grad"].sum(1), 0, atol=1e-6)


def test_an_old_opset_is_raised() -> None:
    model = _model("m (float[2,3] x) => (float y) { s = ReduceSum <axes=[1], keepdims=0> (x) y = ReduceMean <keepdims=0> (s) }",
                   '<ir_version: 7, opset_import: ["" : 11]>')  # fmt: skip
    gradient = differentiate(model, wrt=["x"])
    assert gradient.opset >= 18
    np.testing.assert_allclose(_run(gradient, x=np.ones((2, 3), np.float32))["x_grad"], 0.5)


def test_functions_of_the_model_are_written_out() -> None:
    model = _model(
        "m (float[2] x) => (float y) { s = own.square (x) y = ReduceSum <keepdims=0> (s) }\n"
        '<domain: "own", opset_import: ["" : 20]> square (a) => (b) { b = Mul (a, a) }',
        '<ir_version: 10, opset_import: ["" : 20, "own" : 1]>',
    )
    np.testing.assert_allclose(_run(differentiate(model, wrt=["x"]), x=np.array([1, 3], np.float32))["x_grad"], [2, 6])


def test_dropout_sends_the_gradient_only_where_it_let_the_value_through() -> None:
    model = _model("m (float[64,64] x, float r, bool on) => (float[64,64] y) { y = Dropout <seed = 7> (x, r, on) }")
    gradient = differentiate(model, wrt=["x"], output_gradients=["y"])
    ones = np.ones((64, 64), np.float32)
    found = _run(gradient, x=ones, r=np.array(0.25, np.float32), on=np.array(True), y_grad=3 * ones)
    assert 0.6 < (found["y"] > 0).mean() < 0.9
    np.testing.assert_allclose(found["x_grad"], 3 * found["y"])


BLOCKED = """m (float[2,2] x, float[2,2] w) => (float y) {
    a = MatMul (x, w)
    [inverse] d = Det (a)
    y = Mul (d, d)
}"""


def test_an_operator_without_a_rule_is_named_with_its_node_and_what_to_do() -> None:
    with pytest.raises(NoGradient, match=r"'inverse' is a Det") as caught:
        differentiate(_model(BLOCKED), wrt=["w"])
    assert "freeze" in caught.value.hint
    assert caught.value.code == "no-gradient"


def test_an_operator_of_another_domain_is_named() -> None:
    model = _model(
        "m (float[2] x) => (float[2] y) { [mine] y = com.custom.Thing (x) }",
        '<ir_version: 10, opset_import: ["" : 20, "com.custom" : 1]>',
    )
    model.ir.graph.outputs[0].shape = model.ir.graph.inputs[0].shape
    with pytest.raises(NoGradient, match=r"'mine' is a com.custom.Thing"):
        differentiate(model, wrt=["x"], output_gradients=["y"])


def test_blockers_lists_the_nodes_and_what_lies_behind() -> None:
    assert blockers(_model(BLOCKED), wrt=["w", "x"]) == [Blocker("inverse", "Det", ("w", "x"))]
    assert blockers(_model(MLP), wrt=["w", "b"]) == []


def test_a_blocked_branch_that_nothing_asks_for_is_no_obstacle() -> None:
    model = _model(
        "m (float[2,2] x, float[2] w) => (float y) { d = Det (x) s = ReduceSum <keepdims=0> (w) y = Mul (d, s) }"
    )
    eye = np.eye(2, dtype=np.float32)
    assert _run(differentiate(model, wrt=["w"]), x=2 * eye, w=np.ones(2, np.float32))["w_grad"].tolist() == [4, 4]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"wrt": ["missing"]}, NotFound, "no value 'missing'"),
        ({"wrt": ["label"]}, InputError, "has no gradient"),
        ({"wrt": []}, UsageError, "nothing to differentiate"),
        ({"wrt": ["w"], "loss": "other"}, NotFound, "no output 'other'"),
        ({"wrt": ["w"], "loss": "loss", "output_gradients": ["loss"]}, UsageError, "not both"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(settings: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        differentiate(_model(MLP), **settings)  # type: ignore[arg-type]


def test_a_loss_that_is_no_single_number_is_refused() -> None:
    with pytest.raises(InputError, match="a loss is one number"):
        differentiate(_model("m (float[2] x) => (float[2] y) { y = Exp (x) }"), wrt=["x"])
