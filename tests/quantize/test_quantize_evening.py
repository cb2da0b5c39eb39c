"""Channels of tensors between convolutions made equal in size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx import Model
from sardonyx.quantize import evening
from sardonyx.quantize.calibrate import observed
from sardonyx.quantize.evening import evened
from sardonyx.quantize.prepare import prepared
from sardonyx.quantize.streams import streams
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

SETTINGS = Settings(threads=1)
CHANNELS = 8


def _model(*, bend: str = "", seen: bool = False, off: float = 0.0, pads: int = 0) -> Model:
    """Two convolutions, summed, read by two more: channels from small to large. `seen` ties the stream's hands.

    `off` moves what the first one writes away from zero; `pads` puts zeros around what the last one reads.
    """
    random, size = np.random.default_rng(0), np.logspace(-1.5, 0, CHANNELS).astype(np.float32)
    arrays = {
        "w": random.normal(size=(CHANNELS, 3, 3, 3)) * size[:, None, None, None],
        "wb": (random.normal(size=CHANNELS) + off) * size,
        "u": random.normal(size=(CHANNELS, 3, 1, 1)) * size[:, None, None, None], "ub": random.normal(size=CHANNELS) * size,
        "v": random.normal(size=(4, CHANNELS, 1, 1)), "vb": random.normal(size=4),
        "d": random.normal(size=(CHANNELS, 1, 3, 3)), "zero": np.zeros(()), "six": np.full((), 6),
    }  # fmt: skip
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["image", "w", "wb"], ["x"], pads=[1, 1, 1, 1]),
        make("Conv", ["image", "u", "ub"], ["y"]),
        make("Add", ["x", "y"], ["z"]),
        *([make(bend, ["z", *(["zero", "six"] if bend == "Clip" else [])], ["bent"])] if bend else []),
        make("Conv", ["bent" if bend else "z", "v", "vb"], ["out"]),
        make("Conv", ["bent" if bend else "z", "d"], ["own"], group=CHANNELS, pads=[pads] * 4),
    ]
    info = onnx.helper.make_tensor_value_info
    outputs = [info("out", 1, ["n", 4, 6, 6]), info("own", 1, ["n", CHANNELS, 4 + 2 * pads, 4 + 2 * pads])]
    outputs += [info("z", 1, ["n", CHANNELS, 6, 6])] if seen else []
    weights = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", [info("image", 1, ["n", 3, 6, 6])], outputs, weights)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    return prepared(Model.from_proto(proto))


def _branching(operator: str) -> Model:
    """What a convolution writes is read by another one, and by a node of a branch."""
    head = "float[n, 3, 6, 6] image, bool c, float[8, 3, 1, 1] w, float[8] b, float[4, 8, 1, 1] v"
    model = Model.from_text(f"""<ir_version: 10, opset_import: ["": 20]>
    g ({head}) => (float[n, 4, 6, 6] out, float[n, 8, 6, 6] own) {{
        x = Conv(image, w, b)
        out = Conv(x, v)
        own = If (c) <
            then_branch = t () => (float[n, 8, 6, 6] s) {{ s = {operator} }},
            else_branch = e () => (float[n, 8, 6, 6] z) {{ z = {operator} }}
        >
    }}""")
    random, size = np.random.default_rng(0), np.logspace(-1.5, 0, CHANNELS)
    arrays = {
        "w": random.normal(size=(CHANNELS, 3, 1, 1)) * size[:, None, None, None], "b": 20 * size,
        "v": random.normal(size=(4, CHANNELS, 1, 1)),
    }  # fmt: skip
    proto = model.to_proto()
    del proto.graph.input[2:]
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    return prepared(Model.from_proto(proto))


@pytest.mark.parametrize("operator", ["Relu (x)", "Add (x, x)"])
def test_what_a_branch_reads_stays(operator: str) -> None:
    model = _branching(operator)
    batches = [Batch({**batch.inputs, "c": np.array(True)}, None) for batch in _batches(2)]
    assert _furthest(model, evened(model, batches, SETTINGS), batches) < 1e-5


def _batches(count: int = 1, *, size: float = 1.0, seed: int = 1) -> list[Batch]:
    images = np.random.default_rng(seed).normal(size=(count, 16, 3, 6, 6)).astype(np.float32) * size
    return [Batch({"image": image}, None) for image in images]


def _sizes(model: Model, name: str) -> Array:
    size: Array = np.abs(_span(model, name)).max(axis=0)
    return size


def _span(model: Model, name: str) -> Array:
    """The least and the largest value of every channel."""
    found = dict(observed(model, [name], _batches(), SETTINGS))[name]
    return np.array([found.min(axis=(0, 2, 3)), found.max(axis=(0, 2, 3))])


def _furthest(model: Model, other: Model, batches: list[Batch]) -> float:
    """How far two models are apart, of the largest output."""
    found = [[Session(one, SETTINGS).run_fitted(batch.inputs) for batch in batches] for one in (model, other)]
    return max(
        float(np.abs(before[name] - now[name]).max() / np.abs(before[name]).max())
        for before, now in zip(*found, strict=True)
        for name in before
    )


@pytest.mark.parametrize("bend", ["", "Relu"])
def test_channels_become_of_equal_size_and_the_model_stays_equal(bend: str) -> None:
    model, name = _model(bend=bend), "bent" if bend else "z"
    after = evened(model, _batches(), SETTINGS)
    assert _sizes(model, name).max() / _sizes(model, name).min() > 10
    assert _sizes(after, name).max() / _sizes(after, name).min() < 3
    assert _furthest(model, after, _batches(4, seed=2)) < 1e-5


def test_channels_are_moved_around_zero_and_the_model_stays_equal() -> None:
    """Two numbers a channel for three tensors: each is near its middle, none of them far from it as before."""
    model = _model(off=20.0)
    after = evened(model, _batches(), SETTINGS)
    for name in ("x", "z"):
        assert (_off_centre(model, name) > 0.4).all()
        assert (_off_centre(after, name) < 0.1).all()
    assert _furthest(model, after, _batches(4, seed=2)) < 1e-5


def test_channels_with_zeros_around_them_are_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros would stand for the middle: the seeded fault changes what is next to the border."""
    model = _model(off=20.0, pads=1)
    after = evened(model, _batches(), SETTINGS)
    assert (_off_centre(after, "z") > 0.4).all()
    assert _furthest(model, after, _batches(4, seed=2)) < 1e-5
    monkeypatch.setattr(evening, "may_be_moved", lambda _: True)
    assert _furthest(model, evened(model, _batches(), SETTINGS), _batches(4, seed=2)) > 0.1


def _off_centre(model: Model, name: str) -> Array:
    """How far the middle of each channel is from zero, of its largest value."""
    span = _span(model, name)
    off: Array = np.abs(span.mean(axis=0)) / np.abs(span).max(axis=0)
    return off


def test_channels_grow_below_a_clip_with_room_for_what_was_not_seen() -> None:
    model = _model(bend="Clip")
    after = evened(model, _batches(8, size=0.2), SETTINGS)
    before, now = (_sizes(one, "bent") for one in (model, after))
    assert now.max() / now.min() < before.max() / before.min() / 2
    assert _furthest(model, after, _batches(8, size=0.2, seed=2)) < 1e-5


def test_channels_that_only_half_of_the_examples_stir_stay_below_a_clip() -> None:
    """Grown by what the quiet half shows, they would be cut off in the other."""
    model = _model(bend="Clip")
    quiet, loud = _batches(4, size=0.01), _batches(4, size=0.4)
    stirred = [batch for pair in zip(quiet, loud, strict=True) for batch in pair]
    assert _furthest(model, evened(model, stirred, SETTINGS), _batches(8, size=0.5, seed=2)) < 1e-5
    assert _furthest(model, evened(model, _batches(8, size=0.05), SETTINGS), _batches(8, size=0.5, seed=2)) > 1e-3


def test_one_batch_says_too_little_for_a_clip() -> None:
    model = _model(bend="Clip")
    assert np.array_equal(_sizes(evened(model, _batches(), SETTINGS), "bent"), _sizes(model, "bent"))


def test_what_is_not_a_number_moves_nothing() -> None:
    model, batches = _model(), _batches(2)
    batches[1].inputs["image"][0] = np.nan
    assert _furthest(model, evened(model, batches, SETTINGS), _batches(1, seed=2)) == 0


@pytest.mark.parametrize("why", [{"bend": "Sigmoid"}, {"seen": True}], ids=["bent", "seen"])
def test_what_bends_or_is_seen_from_outside_stays(why: dict[str, Any]) -> None:
    model = _model(**why)
    assert streams(model) == []
    assert evened(model, _batches(), SETTINGS) is model


def test_a_sum_with_something_else_stays() -> None:
    """The seeded fault would be to scale one of two terms alone."""
    model = _model()
    text = model.to_proto()
    add = next(node for node in text.graph.node if node.op_type == "Add")
    text.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, CHANNELS, 6, 6), np.float32), "term"))
    add.input[1] = "term"
    assert streams(Model.from_proto(text)) == []


def test_channels_that_are_read_in_pairs_stay() -> None:
    """A convolution of two channels a group has one weight for every two of them."""
    model = _model()
    text = model.to_proto()
    own = next(node for node in text.graph.node if "own" in node.output)
    own.attribute[0].i = CHANNELS // 2
    weights = next(tensor for tensor in text.graph.initializer if tensor.name == own.input[1])
    weights.CopyFrom(onnx.numpy_helper.from_array(np.ones((CHANNELS // 2, 2, 3, 3), np.float32), weights.name))
    text.graph.output[1].type.tensor_type.shape.dim[1].dim_value = CHANNELS // 2
    assert streams(Model.from_proto(text)) == []
