"""The models of the serving benchmark, and requests for them: a tiny one, one that gains from batches, one that takes images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import orjson
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
TITLES = {"tiny": "tiny MLP", "wide": "wide MLP", "image": "image model"}
SHAPES: dict[str, tuple[int, ...]] = {"tiny": (16,), "wide": (2048,), "image": (3, 224, 224)}


@dataclass(frozen=True)
class Request:
    """What the load generator sends over and over."""

    path: str
    body: bytes
    headers: dict[str, str]


def write(folder: Path) -> dict[str, Path]:
    """The models as files."""
    paths = {name: folder / f"{name}.onnx" for name in MODELS}
    for name, path in paths.items():
        path.write_bytes(MODELS[name]().SerializeToString())
    return paths


def drawn(name: str, rows: int = 1) -> Array:
    return np.random.default_rng(1).standard_normal((rows, *SHAPES[name])).astype(np.float32)


def binary(name: str) -> Request:
    """The protocol with the binary extension."""
    array = drawn(name)
    tensor = {
        "name": "x",
        "shape": array.shape,
        "datatype": "FP32",
        "parameters": {"binary_data_size": array.nbytes},
    }
    head = orjson.dumps({"inputs": [tensor], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]})
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return Request(f"/v2/models/{name}/infer", head + array.tobytes(), headers)


def text(name: str) -> Request:
    """The protocol in JSON."""
    array = drawn(name)
    tensor = {"name": "x", "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}
    return _json(f"/v2/models/{name}/infer", {"inputs": [tensor]})


def nested(path: str) -> Callable[[str], Request]:
    """Plain nested lists, for servers with a JSON of their own."""
    return lambda name: _json(path.format(name=name), {"x": drawn(name).tolist()})


def raw(name: str) -> Request:
    """Nothing but the bytes of the tensor."""
    return Request("/", drawn(name).tobytes(), {"Content-Type": "application/octet-stream"})


def _json(path: str, message: Any) -> Request:
    return Request(path, orjson.dumps(message), {"Content-Type": "application/json"})


def _dense(name: str, sizes: list[int]) -> onnx.ModelProto:
    drawing = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for index, (before, after) in enumerate(pairwise(sizes)):
        weights.append(_weight(drawing, f"w{index}", before, after))
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"h{index}"]))
        nodes.append(helper.make_node("Relu", [f"h{index}"], [f"r{index}"]))
        last = f"r{index}"
    nodes[-1].output[0] = "y"
    return _model(name, nodes, weights, ["n", sizes[0]], ["n", sizes[-1]])


def _convolutional() -> onnx.ModelProto:
    drawing = np.random.default_rng(0)
    weights = [_weight(drawing, "a", 32, 3, 5, 5), _weight(drawing, "b", 32, 32, 3, 3), _weight(drawing, "c", 32, 10)]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], strides=[2, 2]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"], strides=[2, 2]),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["t"]),
        helper.make_node("Flatten", ["t"], ["u"]),
        helper.make_node("MatMul", ["u", "c"], ["y"]),
    ]
    return _model("image", nodes, weights, ["n", 3, 224, 224], ["n", 10])


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "tiny": lambda: _dense("tiny", [16, 32, 4]),
    "wide": lambda: _dense("wide", [2048, 2048, 2048, 10]),
    "image": _convolutional,
}


def _weight(drawing: np.random.Generator, name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array((drawing.standard_normal(shape) / 32).astype(np.float32), name)


def _model(name: str, nodes: list[Any], weights: list[Any], taken: list[Any], given: list[Any]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", 1, taken)],
        [helper.make_tensor_value_info("y", 1, given)],
        weights,
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
