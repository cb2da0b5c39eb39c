from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest

import quantizing
from sardonyx.deadline import Deadline
from sardonyx.model import Model
from sardonyx.quantize import qdq
from sardonyx.quantize.calibrate import Walk, histograms
from sardonyx.quantize.fusion import optimized, unfused
from sardonyx.quantize.prepare import prepared
from sardonyx.quantize.qdq import quantizable, with_qdq
from sardonyx.quantize.steps import Plan, Step, activation_step, rounded, weight_step
from sardonyx.quantize.subject import Subject
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch

SETTINGS = Settings(threads=1)


def subject(model: Model, *batches: np.ndarray) -> Subject:
    return Subject(prepared(model), [Batch({"x": batch}) for batch in batches], SETTINGS, vnni=False)


def everything(model: Model) -> frozenset[str]:
    return frozenset(node.name or "" for node in quantizable(model))


def kinds(model: Model) -> Counter[str]:
    return Counter(node.op_type for node in optimized(model, SETTINGS).graph.node)


@pytest.mark.parametrize(
    "plan",
    [Plan(frozenset(), reduce_range=True), Plan(frozenset(), weight="uint8"), Plan(frozenset(), activation="int8")],
    ids=["u8s8", "u8u8", "s8s8"],
)
def test_outputs_stay_near_float_under_every_form(plan: Plan) -> None:
    images = quantizing.images()
    work = subject(quantizing.network(), images)
    model = work.built(Plan(everything(work.model), plan.activation, plan.weight, True, plan.reduce_range))
    real = Session(work.model, SETTINGS)({"x": images})["y"]
    exact = Session(model, Settings(threads=1, optimize=False))({"x": images})["y"]
    assert np.abs(exact - real).max() < 0.1 * np.abs(real).max()
    assert np.abs(exact - real).max() > 0


def test_every_product_and_what_joins_them_becomes_an_integer_kernel() -> None:
    work = subject(quantizing.network(), quantizing.images())
    model = work.built(Plan(everything(work.model), reduce_range=True))
    found = kinds(model)
    assert found["QLinearConv"] == 2
    assert found["QGemm"] == 1
    assert found["QLinearAdd"] == 1
    assert not {"Conv", "Gemm", "Add", "Relu", "Clip"} & set(found)
    assert unfused(model, everything(work.model)) == frozenset()


@pytest.mark.parametrize("activation", ["uint8", "int8"])
def test_a_hard_sigmoid_becomes_a_sum_of_integers_that_cuts_itself_off(activation: str) -> None:
    images = 2 * quantizing.images()
    work = subject(quantizing.swish(), images)
    model = work.built(Plan(everything(work.model), activation, reduce_range=True))
    real = Session(work.model, SETTINGS)({"x": images})["y"]
    found = Session(model, SETTINGS)({"x": images})["y"]
    assert np.abs(found - real).max() < 0.03 * np.abs(real).max()
    without = Session(work.built(Plan(everything(work.model) - {"gate"}, activation, reduce_range=True)), SETTINGS)
    assert np.abs(found - real).mean() < 1.5 * np.abs(without({"x": images})["y"] - real).mean()
    assert "HardSigmoid" not in kinds(model)
    assert activation == "int8" or kinds(model)["QLinearAdd"] == 1


def test_a_node_that_is_left_out_computes_in_float_though_its_neighbours_do_not() -> None:
    """onnxruntime quantises the weights of a float Conv between integers by itself; the shield keeps it from doing so."""
    work = subject(quantizing.network(), quantizing.images())
    model = work.built(Plan(everything(work.model) - {"depthwise"}, reduce_range=True))
    found = kinds(model)
    assert found["QLinearConv"] == 1
    assert found["Conv"] + found["FusedConv"] == 1
    assert unfused(model, everything(work.model)) == {"depthwise"}


def test_an_empty_plan_changes_nothing() -> None:
    images = quantizing.images()
    work = subject(quantizing.network(), images)
    model = work.built(Plan(frozenset()))
    before, after = (Session(one, SETTINGS)({"x": images})["y"] for one in (work.model, model))
    assert np.array_equal(before, after)


def test_the_float_weights_are_gone_from_a_quantised_model() -> None:
    work = subject(quantizing.perceptron(), quantizing.rows()["x"])
    model = work.built(Plan(everything(work.model), reduce_range=True))
    assert model.weight_bytes() < 0.3 * work.model.weight_bytes()


def test_inputs_and_outputs_keep_their_names_and_types() -> None:
    work = subject(quantizing.network(), quantizing.images())
    model = work.built(Plan(everything(work.model)))
    assert model.signature == work.model.signature


def test_two_reduced_products_of_any_value_fit_sixteen_bits_and_full_ones_do_not() -> None:
    weight = np.random.default_rng(0).standard_normal((6, 5, 3, 3)).astype(np.float32)
    weight[0] = 1  # the worst there is: all as large as the largest
    for reduced in (True, False):
        step = weight_step(weight, 0, Plan(frozenset(), reduce_range=reduced), (0, 2, 3, 1))
        integers = rounded(weight, step).astype(int)
        rows = np.pad(integers.transpose(0, 2, 3, 1).reshape(6, 45), ((0, 0), (0, 1)))
        pairs = 255 * np.abs(rows[:, 0::2] + rows[:, 1::2])
        assert bool(pairs.max() <= np.iinfo(np.int16).max) is reduced


KERNELS = {
    "convolution": ("Conv", 8), "of odd channels": ("Conv", 5), "of points": ("Conv", 32, 1), "of groups": ("Conv", 16, 3, 4),
    "of single channels": ("Conv", 16, 3, 16), "product": ("MatMul", 64), "of odd length": ("MatMul", 63), "gemm": ("Gemm", 64),
}  # fmt: skip


@pytest.mark.parametrize("case", KERNELS)
def test_reduced_weights_overflow_no_kernel_even_at_the_largest_inputs(case: str) -> None:
    model = quantizing.product(*KERNELS[case])
    ones = np.ones([2, *(size for size in model.signature.inputs[0].shape[1:])], np.float32)
    work = subject(model, ones)
    quantized = work.built(Plan(everything(work.model), reduce_range=True))
    exact = Session(quantized, Settings(threads=1, optimize=False))({"x": ones})["y"]
    assert np.abs(Session(quantized, SETTINGS)({"x": ones})["y"] - exact).max() < 1e-3 * np.abs(exact).max()


def test_reduced_weights_are_closer_than_seven_bits_bring_them() -> None:
    weight = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)

    def error(step: Step) -> float:
        return float(((rounded(weight, step) * step.scale[:, None] - weight) ** 2).sum())

    widest = (np.abs(weight).max(axis=1) / 64).astype(np.float32)
    seven = Step(widest, np.zeros(8, np.int8), 0, 64)
    assert error(weight_step(weight, 0, Plan(frozenset(), reduce_range=True), (0, 1))) < 0.6 * error(seven)


def test_each_channel_has_a_scale_of_its_own() -> None:
    weight = np.stack([np.linspace(-1, 1, 50), np.linspace(-100, 100, 50)]).astype(np.float32)
    step = weight_step(weight, 0, Plan(frozenset()), (0, 1))
    back = rounded(weight, step) * step.scale[:, None]
    assert np.abs(back[0] - weight[0]).max() < 0.04
    coarse = weight_step(weight, None, Plan(frozenset()), (0, 1))
    assert np.abs(rounded(weight, coarse)[0] * coarse.scale - weight[0]).max() > 0.3


def test_zero_is_exact_whatever_the_range() -> None:
    for low, high in ((-1.0, 3.0), (2.0, 5.0), (-7.0, -2.0), (0.0, 0.0), (-1e-30, 1e-30)):
        step = activation_step(low, high, "uint8")
        assert rounded(np.zeros(1), step)[0] == step.zero


def test_a_bias_too_large_for_its_scale_still_fits() -> None:
    model = quantizing.network()
    model.ir.graph.initializers["b1"].const_value = ir.tensor(np.full(8, 3e4, np.float32), name="b1")
    images = quantizing.images() * 1e-6
    work = subject(model, images)
    real = Session(work.model, SETTINGS)({"x": images})["y"]
    model = work.built(Plan(frozenset(["first"]), reduce_range=True))
    assert np.abs(Session(model, SETTINGS)({"x": images})["y"] - real).max() < 0.02 * np.abs(real).max()


def test_a_mask_of_lowest_floats_is_left_alone() -> None:
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[n,4] x) => (float[n,4] y)
        <float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}, float[4] mask = {0,0,0,-3.4e38}>
        { p = MatMul(x, w) y = Add(p, mask) }"""
    work = subject(Model.from_text(text), np.ones((8, 4), np.float32))
    model = work.built(Plan(everything(work.model), reduce_range=True))
    found = Session(model, SETTINGS)({"x": np.full((1, 4), 0.5, np.float32)})["y"]
    assert np.allclose(found[0, :3], 0.5, atol=0.01)


def test_weights_in_constant_nodes_are_found() -> None:
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[n,2] x) => (float[n,2] y)
        { w = Constant<value = float[2,2] {1.0,2.0,3.0,4.0}>() y = MatMul(x, w) }"""
    ready = prepared(Model.from_text(text))
    assert [node.op_type for node in quantizable(ready)] == ["MatMul"]


def test_an_old_opset_is_raised_so_that_channels_have_scales() -> None:
    model = quantizing.network()
    old = model.to_proto()
    old.opset_import[0].version = 12
    old.ir_version = 7
    ready = prepared(Model.from_proto(old))
    assert ready.opset >= 13
    work = Subject(ready, [Batch({"x": quantizing.images()})], SETTINGS, vnni=False)
    Session(work.built(Plan(everything(ready))), SETTINGS)


def test_shapes_may_differ_from_batch_to_batch_and_groups_see_the_same() -> None:
    model = prepared(quantizing.network())
    batches = [Batch({"x": quantizing.images(count)}) for count in (1, 5, 2)]
    names = qdq.watched(model)
    whole = histograms(model, names, batches, SETTINGS)
    tiny = histograms(model, names, batches, SETTINGS, at_once=1)
    assert set(whole) == set(tiny) == set(names)
    for name in names:
        # Other outputs fuse other kernels, which round differently.
        assert (whole[name].low, whole[name].high) == pytest.approx(
            (tiny[name].low, tiny[name].high), rel=1e-4, abs=1e-5
        )
        assert whole[name].total == tiny[name].total


def test_ranges_are_those_of_the_values_that_flow() -> None:
    images = quantizing.images()
    model = prepared(quantizing.network())
    found = histograms(model, qdq.watched(model), [Batch({"x": images})], SETTINGS)
    assert found["x"].low == images.min()
    relu = next(node.outputs[0].name for node in model.ir.graph if node.op_type == "Relu")
    assert found[relu].low == 0
    with_qdq(model, Plan(everything(model)), {name: (item.low, item.high) for name, item in found.items()})


def test_a_calibration_ends_with_its_time_and_each_walk_gets_its_share() -> None:
    now = [0.0]

    def batches() -> Iterator[Batch]:
        for _ in range(100):
            now[0] += 1
            yield Batch({"x": np.zeros((4, 3), np.float32)})

    class Again:
        def __iter__(self) -> Iterator[Batch]:
            return batches()

    walk = Walk(Again(), Deadline(30, clock=lambda: now[0]))
    assert len(list(walk.once(1 / 2))) == 15
    assert len(list(walk.once(1))) == 15
    assert len(list(walk.once(1))) == 2  # at least eight examples, however late
    assert walk.examples == 8
    assert len(list(Walk(Again()).once(1))) == 100
