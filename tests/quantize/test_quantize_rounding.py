"""Weights rounded together, and biases that make good what integers do to the mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from sardonyx import Model
from sardonyx.deadline import Deadline
from sardonyx.quantize import moments as moments_of
from sardonyx.quantize.moments import Moments, moments, summed_rows, unsummed_rows
from sardonyx.quantize.prepare import float_nodes, prepared
from sardonyx.quantize.qdq import summed_order, weight_axis
from sardonyx.quantize.rounding import Rounding, real
from sardonyx.quantize.steps import PAIR, Plan, activation_step, rounded, weight_step
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

SETTINGS = Settings(threads=1)
# Every form of convolution: attributes, the shapes of x and of the weights.
CONVOLUTIONS = {
    "plain": ("", (3, 4, 9, 9), (6, 4, 3, 3)),
    "padded": ("<pads = [1, 2, 0, 1]>", (3, 4, 6, 7), (6, 4, 3, 3)),
    "strided": ("<strides = [2, 3]>", (3, 4, 9, 11), (6, 4, 3, 2)),
    "dilated": ("<dilations = [2, 1], pads = [1, 1, 1, 1]>", (3, 4, 9, 9), (6, 4, 3, 3)),
    "grouped": ("<group = 2>", (3, 4, 6, 6), (6, 2, 3, 3)),
    "depthwise": ("<group = 4, pads = [1, 1, 1, 1]>", (3, 4, 6, 6), (4, 1, 3, 3)),
    "of lines": ("<strides = [2]>", (3, 4, 20), (6, 4, 5)),
}


def _convolution(attributes: str, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[Model, Array]:
    random = np.random.default_rng(0)
    dims = ",".join(map(str, x[1:]))
    weight = random.normal(size=w).astype(np.float32)
    numbers = ", ".join(map(str, weight.reshape(-1)))
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
      g (float[N,{dims}] x) => (float[N,{",".join("abc"[: len(x) - 1])}] y)
      <float[{",".join(map(str, w))}] w = {{{numbers}}}, float[{w[0]}] b = {{{", ".join(["0"] * w[0])}}}>
      {{ y = Conv {attributes} (x, w, b) }}"""
    return prepared(Model.from_text(text)), (3 + random.normal(size=x)).astype(np.float32)


@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_weights_times_the_mean_row_are_the_mean_result(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime is the judge of which values a convolution sums up, and in which order."""
    monkeypatch.setattr(moments_of, "ROWS", 10_000)
    model, x = _convolution(*CONVOLUTIONS[form])
    [node] = float_nodes(model)
    found = moments(model, [Batch({"x": x}, None)], SETTINGS)[node.name or ""]
    weight = node.inputs[1].const_value.numpy()
    [y] = Session(model, SETTINGS).run_fitted({"x": x}).values()
    results = np.moveaxis(y, 1, 0).reshape(y.shape[1], -1)
    rows = summed_rows(node, weight).reshape(*found.mean.shape[:1], -1, found.mean.shape[1])
    assert np.allclose(np.einsum("gok,gk->go", rows, found.mean).reshape(-1), results.mean(axis=1), rtol=1e-4)
    powers = np.einsum("gok,gkl,gol->go", rows, found.second, rows).reshape(-1)
    assert np.allclose(powers, (results.astype(np.float64) ** 2).mean(axis=1), rtol=1e-4)
    assert np.array_equal(unsummed_rows(node, summed_rows(node, weight), weight), weight)


def _correlated(rows: int, width: int) -> Array:
    """Inputs that go up and down together, as channels of a picture do."""
    random = np.random.default_rng(1)
    mixed = random.normal(size=(rows, 4)) @ random.normal(size=(4, width))
    return (1 + mixed + 0.1 * random.normal(size=(rows, width))).astype(np.float32)


def _product(width: int, results: int, *, reduce_range: bool = False):  # type: ignore[no-untyped-def]
    random = np.random.default_rng(2)
    weight = random.normal(size=(results, width)).astype(np.float32)
    w = onnx.numpy_helper.from_array(weight, "w")
    b = onnx.numpy_helper.from_array(np.zeros(results, np.float32), "b")
    node = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", width), ("y", results))]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [w, b])
    model = prepared(
        Model.from_proto(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10))
    )
    [node] = float_nodes(model)
    step = weight_step(
        weight, weight_axis(node, weight), Plan(frozenset(), reduce_range=reduce_range), summed_order(node, weight)
    )
    return node, weight, step


@pytest.mark.parametrize("width", [8, 64, 200])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_rounding_together_errs_less_where_inputs_move_together(width: int, reduce_range: bool) -> None:
    node, weight, step = _product(width, 16, reduce_range=reduce_range)
    x, fresh = np.split(_correlated(2000, width), 2)
    found = Moments.empty(1, width)
    found.add(x[None])
    rounding = Rounding({node.name: found})
    integers = rounding.weights(node, weight, step, biased=False)
    errors = [((fresh @ (weight - real(made, step)).T) ** 2).sum() for made in (rounded(weight, step), integers)]
    assert errors[1] < 0.5 * errors[0]
    assert rounding.noise(node, weight, integers, step) < 0.5 * rounding.noise(
        node, weight, rounded(weight, step), step
    )


def test_moments_of_other_inputs_do_not_help() -> None:
    """The seeded fault: with the rows in the wrong order the errors are no smaller than by plain rounding."""
    node, weight, step = _product(64, 16)
    x, fresh = np.split(_correlated(2000, 64), 2)
    wrong = Moments.empty(1, 64)
    wrong.add(x[None, :, ::-1])
    integers = Rounding({node.name: wrong}).weights(node, weight, step, biased=False)
    errors = [((fresh @ (weight - real(made, step)).T) ** 2).sum() for made in (rounded(weight, step), integers)]
    assert errors[1] > 0.8 * errors[0]


def test_pairs_stay_within_sixteen_bits() -> None:
    node, weight, step = _product(200, 16, reduce_range=True)
    found = Moments.empty(1, 200)
    found.add(_correlated(1000, 200)[None])
    steps = Rounding({node.name: found}).weights(node, weight, step, biased=True).astype(int)
    first, second = steps[:, 0::2], steps[:, 1::2]
    assert (np.abs(first + second)[first * second > 0] <= PAIR).all()
    assert np.abs(steps).max() <= 127


def test_inputs_that_do_not_move_together_round_to_the_nearest() -> None:
    node, weight, step = _product(32, 8)
    alone = Moments(np.zeros((1, 32)), np.eye(32)[None], 1)
    assert np.array_equal(Rounding({node.name: alone}).weights(node, weight, step, biased=False), rounded(weight, step))


def test_what_is_asked_for_after_its_time_is_rounded_to_the_nearest_and_what_is_known_stays() -> None:
    now = [0.0]
    node, weight, step = _product(64, 8)
    found = Moments.empty(1, 64)
    found.add(_correlated(500, 64)[None])
    rounding = Rounding({node.name: found}, Deadline(1, clock=lambda: now[0]))
    together = rounding.weights(node, weight, step, biased=False)
    assert not np.array_equal(together, rounded(weight, step))
    now[0] = 2.0
    assert np.array_equal(rounding.weights(node, weight, step, biased=False), together)
    other = replace(step, scale=step.scale * np.float32(1.5))
    assert np.array_equal(rounding.weights(node, weight, other, biased=False), rounded(weight, other))


def test_the_bias_takes_up_what_a_background_is_off_by() -> None:
    """A picture that is nearly everywhere the same value is off by the same nearly everywhere."""
    node, weight, step = _product(32, 8)
    x = np.full((500, 32), 0.7312, np.float32)
    x[:, 0] = np.linspace(-1, 1, 500)
    found = Moments.empty(1, 32)
    found.add(x[None])
    rounding, into = Rounding({node.name: found}), activation_step(-1, 1, "uint8")
    integers = rounding.weights(node, weight, step, biased=True)
    bias = rounding.bias(node, weight, integers, step, np.zeros(8, np.float32), into)
    coarse = real(rounded(x, into), into) @ real(integers, step).T
    before, after = (np.abs((x @ weight.T - made).mean(axis=0)).max() for made in (coarse, coarse + bias))
    assert after < 0.1 * before
