"""Generated inputs: how large a dynamic dimension becomes, and which integers make sense in an input."""

from __future__ import annotations

import ast
import operator
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

Range = tuple[int, int]

# A dynamic dimension of a generated input: one example, and 64 of anything else, which most strides divide.
BATCH, LENGTH = 1, 64
WORDS = ("a", "b", "c")

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}

# Operators that hand an integer on unchanged, from their first input to their first output.
_CARRIES = frozenset(
    ("Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Expand", "Slice", "Tile", "Cast")
)
# Operator -> position of its indices -> position of the tensor that they point into, along `axis`.
_INDEXES: dict[str, dict[int, int]] = {
    "Gather": {1: 0},
    "GatherElements": {1: 0},
    "GatherBlockQuantized": {1: 0},
    "EmbedLayerNormalization": {0: 2, 1: 4},
}
# Operators that take an 8-bit input as a quantity, so every value of the type is fair.
_MEASURES = frozenset(("DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"))
_EIGHT_BITS: dict[str, Range] = {"UINT8": (0, 255), "INT8": (-128, 127)}
_READ_AT_MOST = 1 << 16


def size(dim: int | str | None, axis: int, known: dict[str, int]) -> int:
    """The size a dimension takes: fixed, known by its name, computed from known names, or a default that is then known."""
    if isinstance(dim, int):
        return dim
    default = BATCH if axis == 0 or (dim is not None and "batch" in dim.lower()) else LENGTH
    if dim is None:
        return default
    if dim not in known:
        known[dim] = computed(dim, known) or default
    return known[dim]


def computed(dim: str, known: Mapping[str, int]) -> int | None:
    """The value of a dimension written as arithmetic, as `past + 1`; None where a part is unknown or it is not that."""
    try:
        value = _value(ast.parse(dim, mode="eval").body, known)
    except (SyntaxError, KeyError, ZeroDivisionError, RecursionError, MemoryError, ValueError):
        return None
    return value if value > 0 else None


def draw(dtype: np.dtype[Any], shape: tuple[int, ...], *, seed: int, name: str, between: Range | None = None) -> Any:
    """An array that depends on the seed and the input's name alone: giving one input leaves the others as they were."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if dtype.hasobject:
        return np.array(WORDS, dtype=object)[random.integers(0, len(WORDS), shape)] if shape else np.array("a", object)
    if dtype.kind in "iub" or "int" in dtype.name:
        lowest, highest = between or (0, 1)
        return np.asarray(random.integers(lowest, highest, shape, endpoint=True)).astype(dtype)
    return np.asarray(random.standard_normal(shape)).astype(dtype)


def ranges(graph: ir.Graph) -> dict[str, Range]:
    """Integer input to the values that the graph expects there, where an operator says so plainly.

    An input that indexes an embedding of 30,522 rows gets 0 to 30,521; one that is compared with a constant (a one-hot)
    gets the constant's span; an 8-bit input that is dequantised or computed with gets the whole type.
    """
    found = {}
    for value in graph.inputs:
        kind = getattr(value.type, "dtype", None)
        if value.name and kind is not None and kind.is_integer():
            expected = _expected(value, kind.name)
            if expected is not None:
                found[value.name] = expected
    return found


def _expected(value: ir.Value, kind: str) -> Range | None:
    bounds, spans = [], []
    for node, position in _readers(value):
        bounds += _index_bound(node, position)
        spans += _compared_span(node, position)
        if kind in _EIGHT_BITS and (node.op_type in _MEASURES or node.op_type == "Cast"):
            spans.append(_EIGHT_BITS[kind])
    if bounds:
        return 0, min(bounds)
    return (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None


def _readers(value: ir.Value) -> Iterable[tuple[ir.Node, int]]:
    """Nodes that read the value, past those that only hand it on, each with the position it is read at."""
    waiting, seen = [value], {id(value)}
    while waiting:
        for node, position in waiting.pop().uses():
            if not (node.op_type in _CARRIES and position == 0 and _stays_integer(node)):
                yield node, position
            elif id(node.outputs[0]) not in seen:
                seen.add(id(node.outputs[0]))
                waiting.append(node.outputs[0])


def _stays_integer(node: ir.Node) -> bool:
    import onnx_ir

    to = node.attributes.get("to")
    return to is None or onnx_ir.DataType(to.as_int()).is_integer()


def _index_bound(node: ir.Node, position: int) -> list[int]:
    """The highest index, if the node uses the value at this position as one."""
    if position not in _INDEXES.get(node.op_type, {}):
        return []
    table = node.inputs[_INDEXES[node.op_type][position]]
    shape = None if table is None else getattr(_constant(table), "shape", table.shape)
    axis = node.attributes.get("axis") or node.attributes.get("gather_axis")
    rows = None if shape is None else shape[axis.as_int() if axis is not None else 0]
    return [rows - 1] if isinstance(rows, int) and rows > 0 else []


def _compared_span(node: ir.Node, position: int) -> list[Range]:
    """The lowest and highest of several constants that the node compares the value with, as a one-hot does."""
    if node.op_type != "Equal":
        return []
    constant = _constant(node.inputs[1 - position])
    if constant is None or not 1 < constant.size <= _READ_AT_MOST or not constant.dtype.is_integer():
        return []
    numbers = constant.numpy()
    return [(int(numbers.min()), int(numbers.max()))]


def _constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of an initializer or a Constant node."""
    import onnx_ir

    return None if value is None else onnx_ir.convenience.get_const_tensor(value)


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return int(_ARITHMETIC[type(node.op)](_value(node.left, known), _value(node.right, known)))
    raise ValueError("not arithmetic")
