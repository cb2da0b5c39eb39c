"""Small float models that quantise, and data for them."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sardonyx.model import Model
from sardonyx.signature import Arrays


def _tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(array.astype(np.float32), name)


def _model(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shapes: tuple[list, list]) -> Model:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shapes[0])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes[1])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))


def network(seed: int = 0, channels: int = 8, size: int = 8) -> Model:
    """Conv, Relu, depthwise Conv, Clip, a residual Add, a pool and a Gemm to ten scores."""
    random = np.random.default_rng(seed)
    weights = [
        _tensor("w1", random.standard_normal((channels, 3, 3, 3)) / 5),
        _tensor("b1", random.standard_normal(channels) / 5),
        _tensor("w2", random.standard_normal((channels, 1, 3, 3)) / 3),
        _tensor("zero", np.array(0)),
        _tensor("six", np.array(6)),
        _tensor("w3", random.standard_normal((10, channels))),
        _tensor("b3", random.standard_normal(10) / 5),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "depthwise", pads=[1, 1, 1, 1], group=channels),
        helper.make_node("Clip", ["c2", "zero", "six"], ["r2"], "clip"),
        helper.make_node("Add", ["r1", "r2"], ["s"], "residual"),
        helper.make_node("GlobalAveragePool", ["s"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "last", transB=1),
    ]
    return _model(nodes, weights, (["n", 3, size, size], ["n", 10]))


def perceptron(width: int = 384, layers: int = 4, seed: int = 0) -> Model:
    """Wide products with Relu between: what integers make much faster on any machine with kernels for them."""
    random = np.random.default_rng(seed)
    weights = [_tensor(f"w{i}", random.standard_normal((width, width)) / width**0.5 * 1.4) for i in range(layers)]
    nodes, value = [], "x"
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], f"product{i}"))
        value = "y" if i == layers - 1 else f"r{i}"
        nodes.append(helper.make_node("Relu", [f"m{i}"], [value], f"relu{i}"))
    return _model(nodes, weights, (["n", width], ["n", width]))


@cache
def images(count: int = 64, size: int = 8, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, size, size)).astype(np.float32)


def rows(count: int = 64, width: int = 384, seed: int = 1) -> Arrays:
    return {"x": np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)}
