"""What is known of a value before the model runs: its type, its shape, and its elements where they are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

Shape = tuple[int | None, ...]

# Shapes, axes and scales have a few elements; more than this is data, and nothing needs its values.
SMALL = 1024


class Unsized(Exception):
    """A rule asked for a size that nobody can know before the model runs."""


@dataclass(frozen=True, eq=False)
class Fact:
    """One value. `constant` says that it depends on no input of the model."""

    type: onnx.TypeProto | None = None
    data: np.ndarray[Any, Any] | None = None
    constant: bool = False

    @classmethod
    def tensor(
        cls, dtype: int, shape: Shape | None, data: np.ndarray[Any, Any] | None = None, *, constant: bool = False
    ) -> Fact:
        return cls(onnx.helper.make_tensor_type_proto(dtype, shape), data, constant)

    @classmethod
    def of_weight(cls, tensor: ir.TensorProtocol) -> Fact:
        """A tensor that is stored in the model, read only if it is small."""
        shape = tuple(int(size) for size in tensor.shape)
        return cls.tensor(int(tensor.dtype), shape, _elements(tensor), constant=True)

    @cached_property
    def dtype(self) -> ir.DataType | None:
        known = self._tensor is not None and self._tensor.elem_type
        return ir.DataType(self._tensor.elem_type) if known and self._tensor is not None else None

    @cached_property
    def shape(self) -> Shape | None:
        if self._tensor is None or not self._tensor.HasField("shape"):
            return None
        dims = self._tensor.shape.dim
        return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims)

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape, if every dimension is known."""
        shape = self.shape
        return None if shape is None or None in shape else tuple(size for size in shape if size is not None)

    @cached_property
    def elements(self) -> int | None:
        return None if self.sizes is None else math.prod(self.sizes)

    @cached_property
    def nbytes(self) -> int | None:
        """Bytes in memory; None where the size or the width of an element (a string) is unknown."""
        if self.elements is None or self.dtype is None or self.dtype == ir.DataType.STRING:
            return None
        return math.ceil(self.elements * self.dtype.bitwidth / 8)

    @property
    def _tensor(self) -> onnx.TypeProto.Tensor | None:
        return None if self.type is None or not self.type.HasField("tensor_type") else self.type.tensor_type


UNKNOWN = Fact()
READABLE = frozenset(
    ir.DataType[name]
    for name in ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT16", "FLOAT", "DOUBLE")
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Body:
    """A subgraph of a node: its steps, how often they run, and whether that count is known."""

    graph: ir.Graph
    steps: tuple[Step, ...]
    times: int = 1
    exact: bool = True


@dataclass(frozen=True, eq=False)
class Step:
    """One node with what is known of its inputs and outputs. Of its bodies, all run or (`choice`) one.

    `followed` is false where the node has a subgraph that nobody here understands.
    """

    node: ir.Node
    inputs: tuple[Fact, ...]
    outputs: tuple[Fact, ...]
    bodies: tuple[Body, ...] = ()
    choice: bool = False
    followed: bool = True

    def shape(self, position: int) -> tuple[int, ...]:
        return _sized(self.inputs, position)

    def result(self, position: int = 0) -> tuple[int, ...]:
        return _sized(self.outputs, position)

    def given(self, position: int) -> bool:
        return position < len(self.node.inputs) and self.node.inputs[position] is not None

    def integer(self, name: str, default: int = 0) -> int:
        found = self.node.attributes.get(name)
        return default if found is None else found.as_int()

    def count(self, name: str) -> int:
        """How many numbers an attribute holds."""
        found = self.node.attributes.get(name)
        return 0 if found is None else len(found.value)


def operator_name(node: ir.Node) -> str:
    """The operator as users write it: Conv, com.microsoft.FusedMatMul."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def merged(first: Fact, second: Fact) -> Fact:
    """What holds for a value that may be either of two."""
    if first.type is None or second.type is None or first.dtype != second.dtype:
        return UNKNOWN
    if first.dtype is None:  # sequences and the like: keep the type only if both say the same
        return Fact(first.type) if first.type == second.type else UNKNOWN
    return Fact.tensor(int(first.dtype), _common(first.shape, second.shape), constant=False)


def _elements(tensor: ir.TensorProtocol) -> np.ndarray[Any, Any] | None:
    """The elements of a small tensor; None where it is large, or holds fewer bytes than its shape says."""
    if tensor.size > SMALL or tensor.dtype not in READABLE:
        return None
    try:
        return tensor.numpy()
    except ValueError:
        return None


def _common(first: Shape | None, second: Shape | None) -> Shape | None:
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(one if one == other else None for one, other in zip(first, second, strict=True))


def _sized(facts: Sequence[Fact], position: int) -> tuple[int, ...]:
    sizes = facts[position].sizes if position < len(facts) else None
    if sizes is None:
        raise Unsized
    return sizes
