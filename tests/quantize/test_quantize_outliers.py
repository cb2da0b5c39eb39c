"""Channels that stand out are multiplied apart: an equal model in float, and a far closer one on integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from sardonyx.model import Model
from sardonyx.quantize.outliers import CHANNELS, apart
from sardonyx.quantize.prepare import prepared
from sardonyx.quantize.schemes import static_u8s8
from sardonyx.quantize.subject import Subject
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

WIDTH, LOUD = 64, (3, 17)
SETTINGS = Settings(threads=1)


def model(*, output: bool = False, loud: float = 200) -> Model:
    """Two products that read one activation, of which some channels are loud, and a sum that reads it as well.

    With `output` the first product is the model's own output.
    """
    random = np.random.default_rng(0)
    gain = np.ones(WIDTH, np.float32)
    gain[list(LOUD)] = loud
    weights = {"gain": gain}
    weights |= {name: random.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for name in ("a", "b")}
    nodes = [
        helper.make_node("Mul", ["x", "gain"], ["h"]),
        helper.make_node("MatMul", ["h", "a"], ["p"]),
        helper.make_node("MatMul", ["h", "b"], ["q"]),
        helper.make_node("Sum", ["p", "q", "h"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, ["n", WIDTH]) for name in "xyp"]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:] if output else ends[1:2], tensors)
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    onnx.checker.check_model(made)
    return prepared(Model.from_proto(made))


def batches(count: int = 4) -> list[Batch]:
    random = np.random.default_rng(1)
    return [Batch({"x": random.normal(size=(8, WIDTH)).astype(np.float32)}) for _ in range(count)]


def answers(one: Model) -> dict[str, Array]:
    return Session(one, SETTINGS).run_fitted(batches(1)[0].inputs)


@pytest.mark.parametrize("output", [False, True])
def test_the_model_with_outliers_apart_is_equal_in_float(output: bool) -> None:
    before = model(output=output)
    found = apart(before, batches(), SETTINGS)
    assert found is not None
    assert len(found.products) == 2
    after = answers(found.model)
    assert list(after) == list(answers(before))
    for name, value in answers(before).items():
        np.testing.assert_allclose(after[name], value, rtol=1e-5, atol=1e-4)


def test_the_loud_channels_are_those_apart() -> None:
    found = apart(model(), batches(), SETTINGS)
    assert found is not None
    (places,) = {
        tuple(value.const_value.numpy())
        for name, value in found.model.ir.graph.initializers.items()
        if name.endswith("_places") and value.const_value is not None
    }
    assert set(LOUD) <= set(places)
    assert len(places) == CHANNELS


def test_nothing_is_parted_where_no_channel_stands_out() -> None:
    assert apart(model(loud=1), batches(), SETTINGS) is None


def test_a_product_of_the_models_own_input_is_parted_too() -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[n,64] x) => (float[n,2] y) <float[64,2] w> { y = MatMul(x, w) }'
    proto = Model.from_text(
        text.replace("<float[64,2] w>", f"<float[64,2] w = {{{', '.join(['0.5'] * 128)}}}>")
    ).to_proto()
    loud = np.random.default_rng(1).normal(size=(8, WIDTH)).astype(np.float32)
    loud[:, LOUD] *= 200
    found = apart(prepared(Model.from_proto(proto)), [Batch({"x": loud})], SETTINGS)
    assert found is not None
    np.testing.assert_allclose(
        Session(found.model, SETTINGS).run_fitted({"x": loud})["y"], loud @ np.full((WIDTH, 2), 0.5), rtol=1e-3
    )


def test_integers_are_closer_to_float_with_outliers_apart() -> None:
    subject = Subject(model(), batches(), SETTINGS)
    *whole, parted = (_error(variant.model, subject.model) for variant in static_u8s8.variants(subject))
    assert parted < min(whole) / 5


def _error(one: Model, real: Model) -> float:
    return float(np.abs(answers(one)["y"] - answers(real)["y"]).mean())
