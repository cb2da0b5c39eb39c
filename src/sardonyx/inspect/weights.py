"""What a model stores: its parameters, and the constants that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from sardonyx.inspect.fold import constant_tensor
from sardonyx.inspect.shape_rules import LEARNING, MICROSOFT

# Constants of these types are learned. Those of 64 bits, booleans and strings are indices, shapes, masks and words.
_QUANTIZED = frozenset(("INT8", "UINT8", "INT16", "UINT16", "INT4", "UINT4", "INT2", "UINT2"))

# Operator -> inputs that hold scales and zero points, which belong to the encoding and not to the model.
_ENCODING: dict[str, tuple[int, ...]] = {
    "DequantizeLinear": (1, 2),
    "QuantizeLinear": (1, 2),
    "DynamicQuantizeMatMul": (2, 3),
    "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "ConvInteger": (2, 3),
    "MatMulInteger": (2, 3),
    "MatMulIntegerToFloat": (2, 3, 4, 5),
    "MatMulNBits": (2, 3, 4),
    "MatMulBnb4": (2,),
    "GatherBlockQuantized": (2, 3),
    "QAttention": (3, 4, 6, 7),
    "QGemm": (1, 2, 4, 5, 7, 8),
    "QLinearAdd": (1, 2, 4, 5, 6, 7),
    "QLinearMul": (1, 2, 4, 5, 6, 7),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearConcat": (0, 1, *(index for first in range(3, 300, 3) for index in (first, first + 1))),
    "QLinearAveragePool": (1, 2, 3, 4),
    "QLinearGlobalAveragePool": (1, 2, 3, 4),
    "QLinearLeakyRelu": (1, 2, 3, 4),
    "QLinearSigmoid": (1, 2, 3, 4),
    "QLinearSoftmax": (1, 2, 3, 4),
}
# Operator -> inputs that hold a bias as 32-bit integers; any other constant of that type is an index or a shape.
_WIDE_BIAS: dict[str, tuple[int, ...]] = {"DequantizeLinear": (0,), "QLinearConv": (8,), "QGemm": (6,)}
# Operators whose second input packs a matrix of K rows and N columns.
_PACKED = frozenset(("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"))
# Operator -> attributes with the learned numbers of classical models.
_LEARNED: dict[str, tuple[str, ...]] = {
    "LinearClassifier": ("coefficients", "intercepts"),
    "LinearRegressor": ("coefficients", "intercepts"),
    "SVMClassifier": ("coefficients", "support_vectors", "rho", "prob_a", "prob_b"),
    "SVMRegressor": ("coefficients", "support_vectors", "rho"),
    "Scaler": ("offset", "scale"),
    "TreeEnsembleClassifier": ("nodes_values", "class_weights"),
    "TreeEnsembleRegressor": ("nodes_values", "target_weights"),
}


@dataclass(frozen=True)
class Weight:
    """One stored tensor. `parameters` is 0 where it holds a literal, shapes, indices, scales or zero points."""

    name: str
    dtype: ir.DataType
    shape: tuple[int, ...]
    nbytes: int
    parameters: int


def weights(model: ir.Model) -> list[Weight]:
    """Every tensor that the model stores, in initializers and in Constant nodes, each once."""
    found = []
    for graph in _graphs(model):
        for value in getattr(graph, "initializers", {}).values():
            if value.const_value is not None:
                found.append(_weight(value, value.const_value))
        for node in graph:
            if node.op_type == "Constant" and node.domain == "":
                tensor = constant_tensor(node)
                if tensor is not None:
                    found.append(_weight(node.outputs[0], tensor))
    return found


def learned_attributes(model: ir.Model) -> int:
    """Numbers that linear models, support vectors and trees keep in attributes."""
    return sum(
        len(node.attributes[name].value)
        for graph in _graphs(model)
        for node in graph
        if node.domain == LEARNING
        for name in _LEARNED.get(node.op_type, ())
        if name in node.attributes
    )


def _graphs(model: ir.Model) -> Iterator[ir.Graph | ir.Function]:
    yield from model.graphs()
    for function in model.functions.values():
        yield function
        yield from function.subgraphs()


def _weight(value: ir.Value, tensor: ir.TensorProtocol) -> Weight:
    shape = tuple(int(size) for size in tensor.shape)
    return Weight(value.name or "", tensor.dtype, shape, tensor.nbytes, _parameters(value, tensor))


def _parameters(value: ir.Value, tensor: ir.TensorProtocol) -> int:
    if not tensor.shape:
        return 0  # a lone number is a literal of the source: an epsilon, the 6 of ReLU6
    uses = list(value.uses())
    if uses and all(position in _ENCODING.get(node.op_type, ()) for node, position in uses):
        return 0
    if tensor.dtype == ir.DataType.INT32:
        return tensor.size if _any(uses, _WIDE_BIAS) else 0
    if not tensor.dtype.is_floating_point() and tensor.dtype.name not in _QUANTIZED:
        return 0
    return _unpacked(uses, tensor)


def _unpacked(uses: Iterable[tuple[ir.Node, int]], tensor: ir.TensorProtocol) -> int:
    """How many numbers a tensor holds: onnxruntime packs several of few bits into a byte, and pads the last block."""
    for node, position in uses:
        if node.domain == MICROSOFT and node.op_type in _PACKED and position == 1:
            return node.attributes["K"].as_int() * node.attributes["N"].as_int()
        if node.op_type == "GatherBlockQuantized" and position == 0 and tensor.dtype == ir.DataType.UINT8:
            bits = node.attributes.get("bits")
            return tensor.size * (8 // (4 if bits is None else bits.as_int()))
    return tensor.size


def _any(uses: Iterable[tuple[ir.Node, int]], table: dict[str, tuple[int, ...]]) -> bool:
    return any(position in table.get(node.op_type, ()) for node, position in uses)
