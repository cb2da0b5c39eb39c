"""The float64 twin of a model: the same graph, in which every float32, float16 or bfloat16 tensor is a double.

onnxruntime has no float64 kernel for some operators. Those in `RULES` are written out in operators that have one; the
rest stays an island of float32 between two casts. Weights stay as they are and are cast where they are used, so the twin
needs no second copy of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from sardonyx.compare.emit import Emitter
from sardonyx.compare.widen_rules import RULES, Shapes
from sardonyx.errors import InputError

FLOATS = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16))
OLDEST_OPSET = 11
NARROW = "@narrow"

# The kernel is registered for double and then throws.
_REGISTERED_ONLY = frozenset(("LSTM", "GRU", "RNN"))
# Operators whose kernels take whatever type arrives, or that only hold bodies.
_ANY_TYPE = frozenset(("If", "Loop", "Scan", "Identity", "Constant", "CastLike"))
# Attributes that name the type of an output.
_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype")


def widen(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The twin. Its outputs keep their names, and a float input `x` is fed as `x@narrow`.

    Raises `InputError` where it cannot be made.
    """
    opset = max((item.version for item in proto.opset_import if item.domain in ("", "ai.onnx")), default=0)
    if opset < OLDEST_OPSET:
        raise InputError(
            f"opset {opset} is too old for a float64 twin", hint=f"upgrade it to opset {OLDEST_OPSET} or later"
        )
    twin = onnx.ModelProto()
    twin.CopyFrom(proto)
    Widener(types_of(proto), opset).widen_graph(twin.graph)
    return twin


def types_of(proto: onnx.ModelProto) -> dict[str, int]:
    """Tensor to element type, in the graph and in every body; what cannot be inferred is left out."""
    inferred = onnx.shape_inference.infer_shapes(proto)
    found: dict[str, int] = {}
    for graph in _graphs(inferred.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type:
                found[value.name] = value.type.tensor_type.elem_type
        found |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return found


class Widener:
    """Rewrites one graph and its bodies."""

    def __init__(self, types: dict[str, int], opset: int) -> None:
        self.types, self.opset = types, opset
        self.emit = Emitter(opset, types)

    def widen_graph(self, graph: onnx.GraphProto, outer: Shapes | None = None) -> None:
        """Rewrites in place. A body comes with the shapes known `outer` of it."""
        nodes: list[onnx.NodeProto] = []
        shapes = {**(outer or {}), **_static_shapes(graph)}
        waiting = set[str]()
        for value in graph.input:
            if value.type.tensor_type.elem_type in FLOATS and outer is None:
                waiting.add(value.name)
                value.name += NARROW
            elif value.type.tensor_type.elem_type in FLOATS:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for tensor in graph.initializer:
            _widen_tensor(tensor)
        for node in graph.node:
            # Cast where they are first used, so that no more than one wide weight needs to be in memory.
            used = waiting.intersection(_reads(node))
            nodes.extend(_cast(name + NARROW, name, TensorProto.DOUBLE) for name in sorted(used))
            waiting -= used
            nodes.extend(self.widen_node(node, shapes))
        for value in (*graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type in FLOATS:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)

    def widen_node(self, node: onnx.NodeProto, shapes: Shapes) -> Sequence[onnx.NodeProto]:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                self.widen_graph(attribute.g, shapes)
            else:
                _widen_attribute(node, attribute)
        if node.op_type == "ConstantOfShape" and not node.attribute:  # zeros of float32 unless it says otherwise
            node.attribute.append(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.zeros(1))))
        if node.op_type in _ANY_TYPE or not any(map(self._narrow, (*node.input, *node.output))):
            return [node]
        rule: Callable[..., Any] | None = RULES.get(node.op_type) if not node.domain else None
        if rule is not None:
            written = self.emit.collect(lambda: rule(self.emit, node, shapes))
            if written is not None:
                return written
        if not node.domain and has_double_kernel(node.op_type, self.opset):
            return [node]
        return list(self._island(node))

    def _narrow(self, name: str) -> bool:
        if name and name not in self.types:
            raise InputError(f"the type of tensor {name} is not known", hint="run sardonyx check on the model")
        return self.types.get(name) in FLOATS

    def _island(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """The node as it was, in float32, between casts."""
        for index, name in enumerate(node.input):
            if self._narrow(name):
                node.input[index] = self.emit.fresh(name)
                yield _cast(name, node.input[index], TensorProto.FLOAT)
        back = []
        for index, name in enumerate(node.output):
            if self._narrow(name):
                node.output[index] = self.emit.fresh(name)
                back.append(_cast(node.output[index], name, TensorProto.DOUBLE))
        yield node
        yield from back


@cache
def has_double_kernel(operator: str, opset: int) -> bool:
    """Whether every float type of the operator may be double on the CPU. False where the runtime does not tell."""
    if operator in _REGISTERED_ONLY:
        return False
    try:
        since = onnx.defs.get_schema(operator, opset, "").since_version
    except onnx.defs.SchemaError:
        return False
    kernels = [kernel for kernel in _kernels().get(operator, ()) if kernel[0][0] <= since <= kernel[0][1]]
    # U of LayerNormalization types two by-products that inference graphs leave out.
    narrow = {name for _, constraints in kernels for name, kinds in constraints.items() if "tensor(float)" in kinds} - {
        "U"
    }
    double = {name for _, constraints in kernels for name, kinds in constraints.items() if "tensor(double)" in kinds}
    return bool(kernels) and narrow <= double


@cache
def _kernels() -> dict[str, list[tuple[tuple[int, int], dict[str, list[str]]]]]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found: dict[str, list[tuple[tuple[int, int], dict[str, list[str]]]]] = {}
    # Not a public function: without it every operator is an island, and the noise is measured by repeats.
    for kernel in getattr(state, "get_all_opkernel_def", list)():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain == "":
            found.setdefault(kernel.op_name, []).append((kernel.version_range, kernel.type_constraints))
    return found


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _graphs(body)


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node may read: its inputs, and every name inside its bodies."""
    yield from node.input
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            yield from (value.name for value in body.output)
            for inner in body.node:
                yield from _reads(inner)


def _static_shapes(graph: onnx.GraphProto) -> Shapes:
    """Shapes of what is fed or stored, weights above all."""
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in graph.input}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    constants = ((node, attribute) for node in graph.node for attribute in node.attribute if node.op_type == "Constant")
    return shapes | {
        node.output[0]: tuple(attribute.t.dims) for node, attribute in constants if attribute.name == "value"
    }


def _widen_attribute(node: onnx.NodeProto, attribute: AttributeProto) -> None:
    if attribute.name in _TYPE_ATTRIBUTES and attribute.i in FLOATS and not node.domain:
        attribute.i = TensorProto.DOUBLE
    elif attribute.type == AttributeProto.TENSOR and node.op_type in ("Constant", "ConstantOfShape"):
        _widen_tensor(attribute.t)
    elif attribute.name in ("value_float", "value_floats") and node.op_type == "Constant":
        values: Any = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        attribute.CopyFrom(
            onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.array(values, np.float64)))
        )


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in FLOATS:
        name = tensor.name
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), name))


def _cast(source: str, target: str, kind: int) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [source], [target], to=kind)
