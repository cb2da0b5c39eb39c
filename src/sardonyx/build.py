"""Expressions that write ONNX: `g * (1 - y * y)` appends the nodes, and every value knows its type and shape."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.errors import Internal

# ONNX defines these operators but not the inference of their shapes.
LIKE_FIRST_INPUT = {"GroupNormalization", "MeanVarianceNormalization", "RotaryEmbedding"}

Dimension: TypeAlias = "int | str | None"
Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "Expr | Number | Sequence[int] | np.ndarray[Any, Any] | None"


class Expr:
    """A value of a graph under construction. Arithmetic on it appends nodes; a plain number takes its type."""

    __slots__ = ("build", "value")

    def __init__(self, build: Builder, value: ir.Value) -> None:
        self.build = build
        self.value = value

    def __repr__(self) -> str:
        return f"Expr({self.value.name}: {self.dtype}{self.shape})"

    @property
    def dtype(self) -> ir.DataType:
        if self.value.dtype is None:
            raise Internal(f"the type of {self.value.name} is not known", hint="infer the shapes of the model first")
        return self.value.dtype

    @property
    def shape(self) -> tuple[Dimension, ...] | None:
        """Sizes, names of sizes, or None for a size nobody knows; None as a whole where even the rank is unknown."""
        if self.value.shape is None:
            return None
        return tuple(dim if isinstance(dim, int) else dim.value for dim in self.value.shape)

    @property
    def rank(self) -> int:
        if self.value.shape is None:
            raise Internal(f"the rank of {self.value.name} is not known", hint="give the model's inputs their shapes")
        return len(self.value.shape)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape where every size is a number, else None."""
        shape = self.shape
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            return None
        return tuple(dim for dim in shape if isinstance(dim, int))

    def size(self, axis: int) -> int | None:
        """One size where it is a number."""
        found = None if self.shape is None else self.shape[axis]
        return found if isinstance(found, int) else None

    @property
    def constant(self) -> np.ndarray[Any, Any] | None:
        """The values where they are known while the graph is built."""
        tensor = ir.convenience.get_const_tensor(self.value)
        graph = self.value.graph
        # An initializer that is an input too can be given other values at run time.
        if tensor is None or (graph is not None and self.value.is_graph_input()):
            return None
        return tensor.numpy()

    def __add__(self, other: Operand) -> Expr:
        return op("Add", self, self._alike(other))

    def __radd__(self, other: Operand) -> Expr:
        return op("Add", self._alike(other), self)

    def __sub__(self, other: Operand) -> Expr:
        return op("Sub", self, self._alike(other))

    def __rsub__(self, other: Operand) -> Expr:
        return op("Sub", self._alike(other), self)

    def __mul__(self, other: Operand) -> Expr:
        return op("Mul", self, self._alike(other))

    def __rmul__(self, other: Operand) -> Expr:
        return op("Mul", self._alike(other), self)

    def __truediv__(self, other: Operand) -> Expr:
        return op("Div", self, self._alike(other))

    def __rtruediv__(self, other: Operand) -> Expr:
        return op("Div", self._alike(other), self)

    def __pow__(self, other: Operand) -> Expr:
        return op("Pow", self, self._alike(other))

    def __matmul__(self, other: Expr) -> Expr:
        return op("MatMul", self, other)

    def __neg__(self) -> Expr:
        return op("Neg", self)

    def __lt__(self, other: Operand) -> Expr:
        return op("Less", self, self._alike(other))

    def __le__(self, other: Operand) -> Expr:
        return op("LessOrEqual", self, self._alike(other))

    def __gt__(self, other: Operand) -> Expr:
        return op("Greater", self, self._alike(other))

    def __ge__(self, other: Operand) -> Expr:
        return op("GreaterOrEqual", self, self._alike(other))

    def __and__(self, other: Expr) -> Expr:
        return op("And", self, other)

    def __or__(self, other: Expr) -> Expr:
        return op("Or", self, other)

    def __invert__(self) -> Expr:
        return op("Not", self)

    def equals(self, other: Operand) -> Expr:
        return op("Equal", self, self._alike(other))

    def _alike(self, other: Operand) -> Expr:
        return other if isinstance(other, Expr) else self.build.constant(other, self.dtype)


@dataclass
class Names:
    """Names that no value or node of the model has yet."""

    taken: set[str] = field(default_factory=set)
    counts: dict[str, Iterator[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: ir.Graph) -> Names:
        names = cls()
        for scope in (graph, *graph.subgraphs()):
            names.taken.update(value.name or "" for value in (*scope.inputs, *scope.initializers.values()))
            for node in scope:
                names.taken.add(node.name or "")
                names.taken.update(value.name or "" for value in node.outputs)
        return names

    def fresh(self, stem: str) -> str:
        """The stem itself if it is free, else with the lowest number that is."""
        if stem not in self.taken:
            self.taken.add(stem)
            return stem
        for number in self.counts.setdefault(stem, itertools.count(1)):
            name = f"{stem}_{number}"
            if name not in self.taken:
                self.taken.add(name)
                return name
        raise AssertionError("the counter never ends")


class Builder:
    """Appends nodes to a graph, with types and shapes inferred; constants become initializers of the outermost graph."""

    def __init__(self, graph: ir.Graph, opset: int, *, outer: Builder | None = None, prefix: str = "") -> None:
        self.graph = graph
        self.opset = opset
        self.prefix: str = outer.prefix if outer else prefix
        self.depth: int = outer.depth + 1 if outer else 0
        self.names: Names = outer.names if outer else Names.of(graph)
        self.root: ir.Graph = outer.root if outer else graph
        self._constants: dict[tuple[Any, ...], ir.Value] = outer._constants if outer else {}
        self.made: set[ir.Node] = set()
        self._recorders: list[list[ir.Node]] = []

    def expr(self, value: ir.Value) -> Expr:
        return Expr(self, value)

    def maybe(self, value: ir.Value | None) -> Expr | None:
        return None if value is None else Expr(self, value)

    def constant(self, values: Operand, dtype: ir.DataType = ir.DataType.INT64) -> Expr:
        """A constant, made once for equal values."""
        array = np.asarray(values).astype(dtype.numpy())
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.names.fresh(f"{self.prefix}constant")
            value = ir.val(name, dtype, array.shape, const_value=ir.tensor(array, dtype=dtype, name=name))
            self.root.register_initializer(value)
            self._constants[key] = value
        return self.expr(self._constants[key])

    def emit(self, op_type: str, inputs: Sequence[Operand], attributes: dict[str, Any], outputs: int) -> list[Expr]:
        """Appends one node and gives its outputs, typed and shaped. A plain number takes the type of the first input."""
        like = next((item.dtype for item in inputs if isinstance(item, Expr)), ir.DataType.FLOAT)
        values = [self._operand(item, like) for item in inputs]
        while values and values[-1] is None:
            values.pop()
        present = {name: value for name, value in attributes.items() if value is not None}
        node = ir.node(op_type, values, present, num_outputs=outputs)
        self.append(node)
        if not any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
            infer(node, self.opset)
        return [self.expr(value) for value in node.outputs]

    def append(self, node: ir.Node) -> ir.Node:
        """Appends a node made elsewhere, with names that are free."""
        node.name = self.names.fresh(f"{self.prefix}{node.op_type}")
        for value in node.outputs:
            value.name = self.names.fresh(f"{node.name}_out")
        self.graph.append(node)
        self.made.add(node)
        for recorder in self._recorders:
            recorder.append(node)
        return node

    def replace(self, old: ir.Value, new: Expr) -> None:
        """Lets the graph use another value, which must be equal. The world knows an output by its old name."""
        ir.convenience.replace_all_uses_with(old, new.value, replace_graph_outputs=True)
        if new.value.is_graph_output():
            name, old.name = old.name, self.names.fresh(f"{old.name}_before")
            new.value.name = name

    @contextmanager
    def recording(self) -> Iterator[list[ir.Node]]:
        """The nodes appended meanwhile."""
        recorder: list[ir.Node] = []
        self._recorders.append(recorder)
        try:
            yield recorder
        finally:
            self._recorders.remove(recorder)

    def body(self, name: str, inputs: Iterable[tuple[str, ir.DataType, Sequence[Dimension] | None]]) -> Builder:
        """A builder of a graph inside this one, for the body of a Scan, Loop or If."""
        values = [ir.val(self.names.fresh(f"{self.prefix}{stem}"), dtype, shape) for stem, dtype, shape in inputs]
        graph = ir.Graph(values, [], nodes=[], name=self.names.fresh(f"{self.prefix}{name}"))
        return Builder(graph, self.opset, outer=self)

    def _operand(self, item: Operand, like: ir.DataType) -> ir.Value | None:
        if item is None or isinstance(item, Expr):
            return item.value if item is not None else None
        if isinstance(item, np.ndarray):
            return self.constant(item, ir.DataType.from_numpy(item.dtype)).value
        if isinstance(item, bool | int | float):
            return self.constant(item, like).value
        return self.constant(list(item), ir.DataType.INT64).value


def op(op_type: str, *inputs: Operand, **attributes: Any) -> Expr:
    """The first output of a new node. Lists are int64 constants, plain numbers take the type of the first expression."""
    return ops(1, op_type, *inputs, **attributes)[0]


def ops(outputs: int, op_type: str, *inputs: Operand, **attributes: Any) -> list[Expr]:
    """The outputs of a new node that has several."""
    # Inside a body outer values may be read, but the node belongs to the body.
    build = max((item.build for item in inputs if isinstance(item, Expr)), key=lambda each: each.depth)
    return build.emit(op_type, inputs, attributes, outputs)


def infer(node: ir.Node, opset: int) -> None:
    """Sets the types and shapes of a node's outputs from those of its inputs, as ONNX defines them."""
    if node.op_type in LIKE_FIRST_INPUT:
        _fill(node)
        return
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    types = {value.name: _type_proto(value) for value in node.inputs if value is not None and value.type is not None}
    data = {value.name: found for value in node.inputs if value is not None and (found := _known(value)) is not None}
    proto = ir.to_proto(node)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10
        )
    except onnx.shape_inference.InferenceError as error:
        raise Internal(f"{node.op_type} cannot be built: {str(error).strip()}", hint="report this model") from error
    for value in node.outputs:
        if value.name in found:
            value.type = ir.serde.deserialize_type_proto_for_type(found[value.name])
            value.shape = ir.serde.deserialize_type_proto_for_shape(found[value.name])
    _fill(node)


def _fill(node: ir.Node) -> None:
    """Tells outputs what ONNX's own inference leaves open though it is certain."""
    source = node.inputs[0] if node.inputs else None
    if source is None or source.shape is None or not node.outputs or node.outputs[0].shape is not None:
        return
    if node.op_type in LIKE_FIRST_INPUT:
        node.outputs[0].type, node.outputs[0].shape = source.type, source.shape
    if node.op_type == "Split":
        sizes = list(source.shape)
        sizes[node.attributes.get_int("axis", 0)] = None
        for value in node.outputs:
            value.type, value.shape = source.type, ir.Shape(sizes)


def infer_together(nodes: Sequence[ir.Node], opset: int) -> None:
    """Sets the shapes that only a look at many nodes tells: those that the nodes themselves compute."""
    made = {value for node in nodes for value in node.outputs}
    given = {value: None for node in nodes for value in node.inputs if value is not None and value not in made}
    known = {value: tensor for value in given if (tensor := _known(value)) is not None}
    for value, tensor in known.items():
        tensor.name = value.name or ""
    inputs = [_value_info(value) for value in given if value not in known]
    graph = onnx.helper.make_graph([ir.to_proto(node) for node in nodes], "part", inputs, [], list(known.values()))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    found = {info.name: info.type for info in inferred.graph.value_info}
    for value in made:
        if value.shape is None and value.name in found:
            value.shape = ir.serde.deserialize_type_proto_for_shape(found[value.name])


def _value_info(value: ir.Value) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=value.name or "")
    info.type.CopyFrom(_type_proto(value))
    return info


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    proto = onnx.TypeProto()
    assert value.type is not None
    ir.serde.serialize_type_into(proto, value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(proto, value.shape)
    return proto


def _known(value: ir.Value) -> onnx.TensorProto | None:
    """A small constant, which may decide shapes."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size > 64 or value.is_graph_input():
        return None
    return onnx.numpy_helper.from_array(tensor.numpy())
