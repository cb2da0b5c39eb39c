"""Graphs inside graphs: a Scan written as a Python function of one step, and the nodes of a body written again elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from sardonyx.build import Builder, Dimension, Expr, infer

Step = Callable[[list[Expr], list[Expr]], tuple[Sequence[Expr], Sequence[Expr]]]
Values = dict[ir.Value, ir.Value]


def scan(
    build: Builder, states: Sequence[Expr], sequences: Sequence[Expr], step: Step,
    *, backwards: Sequence[bool] | None = None, axes: Sequence[int] | None = None,
    out_backwards: Sequence[bool] | None = None, out_axes: Sequence[int] | None = None,
) -> tuple[list[Expr], list[Expr]]:  # fmt: skip
    """The final states and the stacked outputs of a loop. `step(states, slices)` gives the next states and the outputs."""
    along = list(axes or [0] * len(sequences))
    given: list[tuple[str, ir.DataType, Sequence[Dimension] | None]] = [("state", x.dtype, x.shape) for x in states]
    given += [("slice", x.dtype, _without(x, axis)) for x, axis in zip(sequences, along, strict=True)]
    body = build.body("body", given)
    inside = [body.expr(value) for value in body.graph.inputs]
    nexts, outputs = step(inside[: len(states)], inside[len(states) :])
    close(body, [*nexts, *outputs])
    for value, state in zip(body.graph.outputs, states, strict=False):
        value.shape, value.type = state.value.shape, state.value.type
    attributes: dict[str, Any] = {"body": body.graph, "num_scan_inputs": len(sequences)}
    directions = [int(flag) for flag in backwards or ()]
    out_directions = [int(flag) for flag in out_backwards or ()]
    places = list(out_axes or ())
    for numbers in (out_directions, places):
        numbers += [0] * (len(outputs) - len(numbers))
    for name, numbers in (
        ("scan_input_directions", directions), ("scan_input_axes", along),
        ("scan_output_directions", out_directions), ("scan_output_axes", places),
    ):  # fmt: skip
        if any(numbers):
            attributes[name] = numbers
    made = build.emit("Scan", [*states, *sequences], attributes, len(nexts) + len(outputs))
    length: Dimension = None if sequences[0].shape is None else sequences[0].shape[along[0]]
    for position, (outer, inner) in enumerate(zip(made, body.graph.outputs, strict=True)):
        outer.value.type = inner.type
        outer.value.shape = inner.shape
        if position >= len(states) and inner.shape is not None:
            sizes = list(build.expr(inner).shape or ())
            sizes.insert(places[position - len(states)], length)
            outer.value.shape = ir.Shape(sizes)
    return made[: len(states)], made[len(states) :]


def _without(x: Expr, axis: int) -> list[Dimension] | None:
    if x.shape is None:
        return None
    sizes = list(x.shape)
    del sizes[axis]
    return sizes


def close(body: Builder, outputs: Sequence[Expr]) -> None:
    """Makes these the outputs of the body. Each is a value of its own, made inside: a graph may not give a value twice."""
    for output in outputs:
        own = output.value.producer() in body.made and not output.value.is_graph_output()
        value = output.value if own else body.emit("Identity", [output], {}, 1)[0].value
        body.graph.outputs.append(value)


def replay(build: Builder, graph: ir.Graph, known: Values) -> Values:
    """Writes the nodes of a graph again through the builder, `known` values replaced. Gives the new value of every old one."""
    values = dict(known)
    for initializer in graph.initializers.values():
        if initializer not in values and initializer.const_value is not None:
            tensor = initializer.const_value
            values[initializer] = build.constant(tensor.numpy(), tensor.dtype).value
    for node in graph:
        copy = _copy(build, node, values)
        build.append(copy)
        if any(attribute.type == ir.AttributeType.GRAPH for attribute in copy.attributes.values()):
            for old, new in zip(node.outputs, copy.outputs, strict=True):
                new.type, new.shape = old.type, old.shape
        else:
            infer(copy, build.opset)
        values.update(zip(node.outputs, copy.outputs, strict=True))
    return values


def _copy(build: Builder, node: ir.Node, values: Values) -> ir.Node:
    inputs = [None if value is None else values.get(value, value) for value in node.inputs]
    attributes = [_copy_attribute(build, attribute, values) for attribute in node.attributes.values()]
    return ir.Node(node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs), overload=node.overload)


def _copy_attribute(build: Builder, attribute: ir.Attr, values: Values) -> ir.Attr:
    if attribute.type != ir.AttributeType.GRAPH:
        return attribute
    inner: ir.Graph = attribute.value
    body = build.body("body", [(value.name or "value", value.dtype, value.shape) for value in inner.inputs])
    known = {**values, **dict(zip(inner.inputs, body.graph.inputs, strict=True))}
    written = replay(body, inner, known)
    body.graph.outputs.extend(written.get(value, value) for value in inner.outputs)
    return ir.AttrGraph(attribute.name, body.graph)


def inputs_of(node: ir.Node) -> list[ir.Value]:
    """The values that a node reads, those that its subgraphs capture from outside among them."""
    return list(dict.fromkeys([*(value for value in node.inputs if value is not None), *captured(node)]))


def captured(node: ir.Node) -> list[ir.Value]:
    """The outer values that the subgraphs of a node read."""
    found: dict[ir.Value, None] = {}
    for graph in subgraphs(node):
        inside = {*graph.inputs, *graph.initializers.values(), *(value for inner in graph for value in inner.outputs)}
        read = (value for inner in graph for value in inputs_of(inner))
        found.update(dict.fromkeys(value for value in (*read, *graph.outputs) if value not in inside))
    return list(found)


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    return [attribute.value for attribute in node.attributes.values() if attribute.type == ir.AttributeType.GRAPH]
