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


def swish() -> Model:
    """A convolution with a hard swish after it, and a second one: the shape of small networks for phones."""
    random = np.random.default_rng(0)
    weights = [
        _tensor("w1", random.standard_normal((16, 3, 3, 3)) / 3),
        _tensor("w2", random.standard_normal((8, 16, 1, 1)) / 3),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("HardSigmoid", ["a"], ["h"], "gate", alpha=1 / 6, beta=0.5),
        helper.make_node("Mul", ["a", "h"], ["m"], "swish"),
        helper.make_node("Conv", ["m", "w2"], ["y"], "second"),
    ]
    return _model(nodes, weights, (["n", 3, 8, 8], ["n", 8, 8, 8]))


def product(kind: str, inside: int, size: int = 3, group: int = 1) -> Model:
    """A single Conv, MatMul or Gemm whose weights are large and mostly of one sign: what overflows where anything does."""
    random = np.random.default_rng(0)
    shape = {"Conv": (16, inside // group, size, size), "MatMul": (inside, 16), "Gemm": (16, inside)}[kind]
    weight = _tensor("w", random.uniform(0.2, 1, shape) * np.where(random.random(shape) < 0.8, 1, -1))
    options = {"Conv": {"pads": [size // 2] * 4, "group": group}, "Gemm": {"transB": 1}, "MatMul": {}}[kind]
    shapes = (["n", inside, 6, 6], ["n", 16, 6, 6]) if kind == "Conv" else (["n", inside], ["n", 16])
    return _model([helper.make_node(kind, ["x", "w"], ["y"], "product", **options)], [weight], shapes)


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
