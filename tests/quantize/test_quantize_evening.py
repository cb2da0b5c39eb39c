"""Channels of linear streams made equal in size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from sardonyx import Model
from sardonyx.quantize.calibrate import observed
from sardonyx.quantize.evening import evened, streams
from sardonyx.quantize.prepare import prepared
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

SETTINGS = Settings(threads=1)
CHANNELS = 8


def _model(*, bent: bool = False, seen: bool = False) -> Model:
    """Two convolutions, summed, read by two more: channels from small to large. `bent` and `seen` tie the stream's hands."""
    random, size = np.random.default_rng(0), np.logspace(-1.5, 0, CHANNELS).astype(np.float32)
    arrays = {
        "w": random.normal(size=(CHANNELS, 3, 3, 3)) * size[:, None, None, None], "wb": random.normal(size=CHANNELS) * size,
        "u": random.normal(size=(CHANNELS, 3, 1, 1)) * size[:, None, None, None], "ub": random.normal(size=CHANNELS) * size,
        "v": random.normal(size=(4, CHANNELS, 1, 1)), "vb": random.normal(size=4),
    }  # fmt: skip
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["image", "w", "wb"], ["x"], pads=[1, 1, 1, 1]),
        make("Conv", ["image", "u", "ub"], ["y"]),
        make("Add", ["x", "y"], ["z"]),
        *([make("Relu", ["z"], ["bent"])] if bent else []),
        make("Conv", ["bent" if bent else "z", "v", "vb"], ["out"]),
    ]
    info = onnx.helper.make_tensor_value_info
    outputs = [info("out", 1, ["n", 4, 6, 6]), *([info("z", 1, ["n", CHANNELS, 6, 6])] if seen else [])]
    weights = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", [info("image", 1, ["n", 3, 6, 6])], outputs, weights)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    return prepared(Model.from_proto(proto))


def _batches() -> list[Batch]:
    image = np.random.default_rng(1).normal(size=(16, 3, 6, 6)).astype(np.float32)
    return [Batch({"image": image}, None)]


def _sizes(model: Model) -> Array:
    found = dict(observed(model, ["z"], _batches(), SETTINGS))["z"]
    size: Array = np.abs(found).max(axis=(0, 2, 3))
    return size


def test_channels_become_of_equal_size_and_the_model_stays_equal() -> None:
    model = _model()
    after = evened(model, _batches(), SETTINGS)
    assert _sizes(model).max() / _sizes(model).min() > 10
    assert _sizes(after).max() / _sizes(after).min() < 3
    [before], [now] = (Session(one, SETTINGS).run_fitted(_batches()[0].inputs).values() for one in (model, after))
    assert np.allclose(before, now, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("why", ["bent", "seen"])
def test_what_is_not_linear_or_is_seen_from_outside_stays(why: str) -> None:
    model = _model(**{why: True})
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
