"""Models that end or hold up the process that loads or runs them, as a stranger could send them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def save(path: Path, nodes: list[onnx.NodeProto], inputs: list, outputs: list, weights: list | None = None) -> Path:  # type: ignore[type-arg]
    def infos(values: list) -> list[onnx.ValueInfoProto]:  # type: ignore[type-arg]
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), weights or [])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def gather_nd(path: Path) -> Path:
    """Ends the process when it is loaded or run: `batch_dims` is far below 0."""
    node = helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-(2**31))
    index = numpy_helper.from_array(np.zeros((1, 1), np.int64), "i")
    return save(path, [node], [("x", FLOAT, ["n", 4])], [("y", FLOAT, None)], [index])


def recurrent(path: Path, kind: str = "LSTM", hidden: int = 4) -> Path:
    """A recurrent network, whose kernel ends the process on an empty batch, or on an empty sequence."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.random((1, gates * hidden, 3), np.float32), "w"),
        numpy_helper.from_array(random.random((1, gates * hidden, hidden), np.float32), "r"),
    ]
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden)
    return save(path, [node], [("x", FLOAT, ["length", "batch", 3])], [("y", FLOAT, None)], weights)


def endless(path: Path) -> Path:
    """Adds up as many times as the input says: for ever, if that is much."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "s"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("c", BOOL, []),
            helper.make_tensor_value_info("s", FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("d", BOOL, []), helper.make_tensor_value_info("t", FLOAT, [1])],
    )
    nodes = [
        helper.make_node("Squeeze", ["x"], ["turns"]),
        helper.make_node("Loop", ["turns", "go", "one"], ["y"], body=body),
    ]
    weights = [
        numpy_helper.from_array(np.array(True), "go"),
        numpy_helper.from_array(np.ones(1, np.float32), "one"),
    ]
    return save(path, nodes, [("x", INT64, [1])], [("y", FLOAT, [1])], weights)


def endless_load(path: Path) -> Path:
    """Does not come to an end while it is warmed up: the number of turns is a constant."""
    endless(path)
    model = onnx.load(path)
    model.graph.node[1].input[0] = "many"
    model.graph.initializer.append(numpy_helper.from_array(np.array(2**62, np.int64), "many"))
    path.write_bytes(model.SerializeToString())
    return path


def scalar(path: Path) -> Path:
    """Harmless: takes one number, which has no rows."""
    return save(path, [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, [])], [("y", FLOAT, [])])
