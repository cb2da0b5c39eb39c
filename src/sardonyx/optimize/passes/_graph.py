"""What passes do to graphs: read constants, shapes and attributes, and put nodes in the place of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import onnx_ir as ir

from sardonyx.signature import Array

MODEL, NAMES = "sardonyx.model", "sardonyx.names"
# Bytes up to which a constant may be kept twice.
SMALL = 1 << 18
FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


class Declined(Exception):
    """A pattern is there, but replacing it would be wrong or of no use. The message says why."""


def introduce(model: ir.Model) -> None:
    """Tells every graph its model, and the model every name that is taken: a graph inside a node knows neither."""
    for graph in model.graphs():
        graph.meta[MODEL] = model
    model.meta[NAMES] = {name for graph in model.graphs() for name in _names(graph)}


def is_standard(node: ir.Node | None, *operators: str) -> TypeGuard[ir.Node]:
    """Whether the node is one of these operators of the ONNX standard."""
    return node is not None and node.domain in ("", "ai.onnx") and node.op_type in operators


def array_of(value: ir.Value | None) -> Array | None:
    """The values of a constant; None for anything that is computed, or that a caller may give."""
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None or tensor.dtype == ir.DataType.STRING else tensor.numpy()


def need_array(value: ir.Value | None, what: str) -> Array:
    """The values of a constant, or `Declined`."""
    found = array_of(value)
    if found is None:
        raise Declined(f"{what} is not a constant")
    return found


def need_alone(value: ir.Value) -> None:
    """Declines unless exactly one node, and no output of a graph, takes the value."""
    if value.is_graph_output():
        raise Declined("what it takes is an output of the graph too")
    if len(value.uses()) > 1:
        raise Declined("other nodes take what it takes")


def need_alone_or_small(table: ir.Value, *rows: ir.Value) -> None:
    """Declines where a changed copy of a large table would stand beside it, because others take it, or rows of it, too."""
    tensor = ir.convenience.get_const_tensor(table)
    shared = any(len(value.uses()) > 1 or value.is_graph_output() for value in (table, *rows))
    if tensor is not None and tensor.nbytes > SMALL and shared:
        raise Declined("others take its table too, which would be kept twice")


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """The value of an attribute. One that a function fills in later cannot be known here."""
    found = node.attributes.get(name)
    if found is None:
        return default
    if found.is_ref():
        raise Declined(f"its {name} is set where its function is called")
    return found.value


def dims(value: ir.Value | None) -> tuple[int | str | None, ...] | None:
    """The shape as numbers and names, None for a size that nobody knows; None where even the rank is unknown."""
    if value is None or value.shape is None:
        return None
    found = (dim if isinstance(dim, int) else dim.value for dim in value.shape)
    # Some exporters write -1 for what they do not know.
    return tuple(None if isinstance(dim, int) and dim < 0 else dim for dim in found)


def static_dims(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape, where all of it is known."""
    found = dims(value)
    return None if found is None or not all(isinstance(dim, int) for dim in found) else found  # type: ignore[return-value]


def opset(node: ir.Node) -> int:
    """The version of the standard operators that the node is written in."""
    return int(owner(node).meta[MODEL].opset_imports.get("", 0))


def owner(node: ir.Node) -> ir.Graph:
    """The graph that the node is in."""
    assert isinstance(node.graph, ir.Graph), "passes look into graphs alone"
    return node.graph


def weight(near: ir.Node, like: str, array: Array, *, dtype: ir.DataType | None = None) -> ir.Value:
    """A new initializer of the node's graph, whose name begins with `like`."""
    graph = owner(near)
    name = unused(graph, like)
    kept = np.ascontiguousarray(array).reshape(array.shape)  # which numpy forgets of a lone number
    tensor = ir.Tensor(kept, name=name, dtype=dtype or ir.DataType.from_numpy(kept.dtype))
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(kept.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def unused(graph: ir.Graph, like: str) -> str:
    """A name that nothing in the model has, and that from now on is taken."""
    taken: set[str] = graph.meta[MODEL].meta[NAMES]
    number = 1
    while f"{like}_{number}" in taken:
        number += 1
    taken.add(f"{like}_{number}")
    return f"{like}_{number}"


def replace(
    node: ir.Node, operator: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
) -> ir.Node:
    """Puts one operator in the place of `node`, whose first output it takes over."""
    made = ir.node(
        operator, inputs, attributes=dict(attributes or {}), name=node.name, metadata_props=dict(node.metadata_props)
    )
    ir.convenience.replace_nodes_and_values(owner(node), node, [node], [made], [node.outputs[0]], [made.outputs[0]])
    return made


def before(
    node: ir.Node, operator: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
) -> ir.Value:
    """A new node in front of `node`, and its output."""
    name = unused(owner(node), f"{node.outputs[0].name}_{operator}")
    made = ir.node(operator, inputs, attributes=dict(attributes or {}), name=name)
    made.outputs[0].name = name
    owner(node).insert_before(node, made)
    return made.outputs[0]


def bypass(node: ir.Node, value: ir.Value) -> None:
    """Lets whoever took the first output of `node` take `value`, and removes the node."""
    output, graph = node.outputs[0], owner(node)
    if output.is_graph_output():
        maker = value.producer()
        if maker is None or maker.graph is not graph or value.is_graph_output():
            raise Declined("its output is an output of the graph, which needs a node of its own")
        # The output keeps its name and its declared type; the value takes them on.
        value.name, value.type, value.shape = output.name, output.type, output.shape
    output.replace_all_uses_with(value, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _names(graph: ir.Graph) -> Iterator[str]:
    yield from (value.name or "" for value in graph.inputs)
    yield from graph.initializers
    for node in graph:
        yield node.name or ""
        yield from (value.name or "" for value in node.outputs)
