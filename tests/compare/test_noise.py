"""Tolerances from measured rounding."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from sardonyx.agreement import Tolerance, judge
from sardonyx.compare.floor import floor_of, unit_roundoff
from sardonyx.compare.flow import Flow
from sardonyx.compare.graph_noise import Meter, measure, shaken
from sardonyx.compare.noise import SAFETY, fixed, larger, moved, settle
from sardonyx.compare.partial import Trace
from sardonyx.model import Model
from sardonyx.run.session import Session

RANDOM = np.random.default_rng(5)
HEADER = '<ir_version: 8, opset_import: ["" : 17]> '


def network(size: int = 64, layers: int = 6, head: str = "Identity") -> Model:
    """Dense layers with tanh, and a head."""
    proto = onnx.parser.parse_model(HEADER + f"g (float[n,{size}] x) => (float[n,{size}] y) {{ y = Identity(x) }}")
    del proto.graph.node[:]
    name = "x"
    for layer in range(layers):
        weight = (RANDOM.standard_normal((size, size)) * 1.5 / np.sqrt(size)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, f"w{layer}"))
        proto.graph.node.append(
            onnx.helper.make_node("MatMul", [name, f"w{layer}"], [f"m{layer}"], name=f"dense{layer}")
        )
        proto.graph.node.append(onnx.helper.make_node("Tanh", [f"m{layer}"], [f"t{layer}"], name=f"tanh{layer}"))
        name = f"t{layer}"
    proto.graph.node.append(onnx.helper.make_node(head, [name], ["y"], name="head"))
    return Model.from_proto(proto)


def answers(model: Model, batches: list) -> list:
    session = Session(model)
    return [list(session(batch).values()) for batch in batches]


def test_the_tolerance_lies_between_the_type_and_a_thousand_units_of_it():
    model, batches = network(), [{"x": RANDOM.standard_normal((8, 64)).astype(np.float32)}]
    noise = measure(model, batches, answers(model, batches))
    assert noise.method == "float64"
    [[tolerance]] = noise.tolerances
    assert SAFETY["float64"] * unit_roundoff(np.dtype(np.float32)) * 0.1 < tolerance.at(0.5) < 1e-4


def test_the_exact_answer_is_rounding_and_a_thousandth_is_not():
    model, batches = network(), [{"x": RANDOM.standard_normal((8, 64)).astype(np.float32)}]
    found = answers(model, batches)
    noise = measure(model, batches, found)
    exact = Meter(model, batches[0]).twins(batches[0])[0]
    assert judge(found[0], exact, noise.tolerances[0]).used < 0.1
    assert judge(found[0], [exact[0] * 1.001], noise.tolerances[0]).verdict == "mismatch"


def test_half_precision_gets_a_tolerance_of_its_own_scale():
    text = HEADER + "g (float16[4,64] x) => (float16[4,64] y) { a = Exp(x) b = Sqrt(a) y = Softmax <axis = -1> (b) }"
    model, batches = Model.from_text(text), [{"x": RANDOM.standard_normal((4, 64)).astype(np.float16)}]
    [[half]] = measure(model, batches, answers(model, batches)).tolerances
    single = Model.from_text(text.replace("float16", "float"))
    batches = [{"x": batches[0]["x"].astype(np.float32)}]
    [[full]] = measure(single, batches, answers(single, batches)).tolerances
    assert 100 < half.at(0.02) / full.at(0.02) < 100_000


def test_what_cancels_gets_an_absolute_part():
    """A logarithm of nearly one: tiny values made from large ones, with the error of the large ones."""
    model = Model.from_text(HEADER + "g (float[n,50] x) => (float[n,50] y) { y = LogSoftmax <axis = -1> (x) }")
    scores = np.zeros((4, 50), np.float32)
    scores[:, 0] = [9, 10, 11, 12]
    batches = [{"x": scores + RANDOM.standard_normal((4, 50)).astype(np.float32)}]
    found = answers(model, batches)
    [[tolerance]] = measure(model, batches, found).tolerances
    nearest_zero = np.abs(found[0][0]).min()
    assert tolerance.at(nearest_zero) > 1e-3 * nearest_zero, "a relative tolerance alone would be far too strict here"


def test_relative_noise_stays_relative():
    """Probabilities over many orders of magnitude are not all judged by the largest."""
    values = np.float32(10.0 ** -RANDOM.uniform(0, 12, 1000))
    values[:100] = 1  # enough large ones to read the relative part off
    twin = values.astype(np.float64) * (1 + 1e-6 * RANDOM.standard_normal(1000))
    floor = floor_of(values, [twin])
    assert 1e-6 < floor.relative < 1e-5
    assert floor.absolute < 0.2 * floor.relative


def test_nan_and_infinite_elements_do_not_count():
    floor = floor_of(np.float32([1, np.nan, np.inf, 2]), [np.float64([1, np.nan, np.inf, 2.001])])
    assert floor.scale == pytest.approx(np.sqrt(2.5))
    assert floor.relative == pytest.approx(0.0005, rel=1e-3)


def test_an_output_of_zeros_has_a_floor_of_what_was_seen():
    assert floor_of(np.zeros(3, np.float32), [np.full(3, 1e-9)]).absolute == pytest.approx(1e-9)


def test_a_single_number_is_measured_several_times():
    model = Model.from_text(
        HEADER
        + "g (float[n,64] x) => (float[n] y) { a = Tanh(x) y = ReduceSum <keepdims = 0> (a, axes) }".replace(
            "{ a", "<int64[1] axes = {1}> { a"
        )
    )
    for seed in range(20):
        batches = [{"x": np.random.default_rng(seed).standard_normal((1, 64)).astype(np.float32)}]
        found = answers(model, batches)
        [[tolerance]] = measure(model, batches, found).tolerances
        backwards = np.tanh(batches[0]["x"])[0, ::-1].cumsum(dtype=np.float32)[-1:]
        assert judge(found[0], [backwards], [tolerance]).verdict != "mismatch"


def test_without_a_float64_twin_repeats_are_measured():
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[4,64] x) => (float[4,64] y) { a = com.microsoft.Gelu(x) y = Softmax <axis = -1> (a) }"""
    model, batches = Model.from_text(text), [{"x": RANDOM.standard_normal((4, 64)).astype(np.float32)}]
    found = answers(model, batches)
    noise = measure(model, batches, found)
    assert noise.method == "repeats"
    [[tolerance]] = noise.tolerances
    assert 0 < tolerance.at(0.02) < 1e-4


def test_batches_that_agree_to_the_last_bit_are_not_measured():
    model, batches = network(), [{"x": RANDOM.standard_normal((8, 64)).astype(np.float32)}]
    found = answers(model, batches)
    noise = measure(model, batches, found, others=found)
    assert (noise.method, noise.tolerances) == ("exact", ((Tolerance(),),))


def test_an_unmeasured_batch_gets_the_tolerance_of_the_measured_scaled_to_its_size():
    small, large = np.float32([[1, -2, 3]]), np.float32([[1000, -2000, 3000]])
    noise = settle("float64", [[small], [large]], [[[small + 1e-6]], []])
    one, two = (tolerances[0] for tolerances in noise.tolerances)
    assert two.absolute == pytest.approx(1000 * one.absolute, rel=1e-3)
    assert two.relative == one.relative


def test_values_that_rounding_makes_infinite_are_called_unstable():
    steady, jumping = np.float32([1.0]), np.float32([np.inf])
    noise = settle("float64", [[steady], [jumping]], [[[np.float64([1.0])]], [[np.float64([1e39])]]])
    assert noise.stable == (True, False)


def test_integers_have_no_tolerance():
    noise = settle("float64", [[np.int64([1])]], [[[np.int64([2])]]])
    assert noise.tolerances == ((Tolerance(),),)


def test_the_larger_of_two_measurements_holds():
    one, two = fixed("given", Tolerance(1, 0.1), [[np.zeros(1)]]), fixed("given", Tolerance(0.5, 0.2), [[np.zeros(1)]])
    assert larger(one, two).tolerances == ((Tolerance(1, 0.2),),)


def test_moved_inputs_differ_in_the_last_place_only():
    batch = {"x": np.float32([1, 0, -3]), "i": np.int64([1, 2])}
    other = moved(batch, seed=1)
    assert np.abs(other["x"] - batch["x"]).max() < 1e-6
    assert (other["x"] != batch["x"]).all()
    assert other["i"] is batch["i"]


def test_where_all_inputs_are_integers_the_first_floats_are_moved():
    text = (
        HEADER
        + """g (int64[n] i) => (float[n,2] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}>
    { e = Gather(t, i) d = Mul(i, i) f = Cast <to = 1> (d) y = Tanh(e) }"""
    )
    trace = Trace(Flow.of(Model.from_text(text)), {"i": np.int64([0, 2])})
    found = shaken(trace, seed=1)
    assert set(found) == {"e", "f"}
    np.testing.assert_allclose(found["e"], [[1, 2], [5, 6]], rtol=1e-6)
    assert (found["e"] != [[1, 2], [5, 6]]).all()


def test_a_twin_that_would_not_fit_into_memory_is_not_made():
    model, batches = network(), [{"x": RANDOM.standard_normal((8, 64)).astype(np.float32)}]
    found = answers(model, batches)
    assert measure(model, batches, found, memory=1 << 30).method == "float64"
    noise = measure(model, batches, found, memory=1 << 10)
    assert noise.method == "repeats"
    exact = Meter(model, batches[0]).twins(batches[0])[0]
    assert judge(found[0], exact, noise.tolerances[0]).verdict == "rounding"
    assert judge(found[0], [exact[0] * 1.001], noise.tolerances[0]).verdict == "mismatch"


def test_columns_of_quite_different_size_have_their_own_rounding():
    exact = np.stack([RANDOM.standard_normal(64) * 1e7, RANDOM.uniform(0, 1, 64)], 1)
    answer = exact.astype(np.float32)
    [[tolerance]] = settle("float64", [[answer]], [[[exact]]]).tolerances
    assert tolerance.columns[0] == 1
    assert tolerance.absolute * tolerance.columns[1] < 1e-4 < tolerance.absolute
    wrong = answer.copy()
    wrong[3, 1] *= 1.01
    assert judge([answer], [exact], [tolerance]).verdict == "rounding"
    assert judge([answer], [wrong], [tolerance]).verdict == "mismatch"


def test_columns_of_like_size_share_one_tolerance():
    exact = RANDOM.standard_normal((64, 5)) * [1, 2, 5, 10, 20]
    [[tolerance]] = settle("float64", [[exact.astype(np.float32)]], [[[exact]]]).tolerances
    assert tolerance.columns == ()


def test_a_small_column_that_cancels_has_the_rounding_that_was_seen():
    """A difference of large terms rounds like them, however small it is."""
    large = RANDOM.standard_normal(64) * 1e6
    exact = np.stack([large * 100, RANDOM.uniform(0, 1, 64)], 1)
    answer = np.stack([exact[:, 0], (exact[:, 1] + large).astype(np.float32) - large.astype(np.float32)], 1)
    [[tolerance]] = settle("float64", [[answer.astype(np.float32)]], [[[exact]]]).tolerances
    assert judge([answer.astype(np.float32)], [exact], [tolerance]).verdict == "rounding"


def test_one_huge_answer_does_not_widen_the_tolerance_of_the_others():
    answers_ = [RANDOM.standard_normal((8, 8)).astype(np.float32) * scale for scale in (1, 1, 1, 1e30)]
    twins = [[[answer.astype(np.float64)]] for answer in answers_]
    noise = settle("float64", [[answer] for answer in answers_], twins)
    assert noise.tolerances[0][0].absolute < 1e-4
