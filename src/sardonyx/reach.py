"""Which inputs of a model decide its outputs: through branches, loops and functions, not only along the main graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product

import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.report import Finding

Edge = tuple[ir.Value, ir.Value | None]  # what is computed, and one of the values that decide it


def unused_inputs(model: Model) -> list[str]:
    """The inputs that no output depends on. Those with a default value are weights by another name and do not count."""
    graph = model.ir.graph
    reached = _reached(graph.outputs, _edges(model.ir))
    return [
        value.name or "" for value in graph.inputs if value.name not in graph.initializers and id(value) not in reached
    ]


def findings(model: Model) -> list[Finding]:
    """A warning for each input that no output depends on."""
    return [
        Finding(
            "warning",
            "unused-input",
            f"input '{name}'",
            f"no output depends on {name}: the model answers the same, whatever its value is",
            "the exporter took its value in the example as a constant: convert by a route that keeps it, such as script, or "
            "make the code use it as a tensor; leave the input out if the original ignores it too",
        )
        for name in unused_inputs(model)
    ]


def _reached(outputs: Iterable[ir.Value], edges: Iterable[Edge]) -> set[int]:
    """The identities of all values that the outputs depend on, themselves among them."""
    needs: defaultdict[int, list[ir.Value]] = defaultdict(list)
    for value, needed in edges:
        if needed is not None:
            needs[id(value)].append(needed)
    reached: set[int] = set()
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        if id(value) not in reached:
            reached.add(id(value))
            waiting += needs[id(value)]
    return reached


def _edges(model: ir.Model) -> Iterator[Edge]:
    for scope in (model.graph, *model.functions.values()):
        for node in scope.all_nodes():
            function = model.functions.get(node.op_identifier())
            if function is not None:
                yield from _through(node, function.inputs, function.outputs)
            else:
                yield from _of_node(node)


def _of_node(node: ir.Node) -> Iterator[Edge]:
    bodies = [
        graph
        for attribute in node.attributes.values()
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) and not attribute.is_ref()
        for graph in ([attribute.value] if attribute.type == ir.AttributeType.GRAPH else attribute.value)
    ]
    rule = CONTROL.get(node.op_type) if node.domain == "" and bodies else None
    if rule is not None:
        for body in bodies:
            yield from rule(node, body)
        return
    yield from product(node.outputs, node.inputs)
    for body in bodies:
        yield from product(node.outputs, body.outputs)
        yield from product(body.inputs, node.inputs)


def _through(node: ir.Node, inputs: Iterable[ir.Value], outputs: Iterable[ir.Value]) -> Iterator[Edge]:
    """A call of a function. All calls of it share its inside: what reaches through one call counts for each."""
    yield from zip(node.outputs, outputs, strict=False)
    yield from zip(inputs, node.inputs, strict=False)


def _if(node: ir.Node, body: ir.Graph) -> Iterator[Edge]:
    yield from zip(node.outputs, body.outputs, strict=False)
    yield from product(node.outputs, node.inputs)


def _loop(node: ir.Node, body: ir.Graph) -> Iterator[Edge]:
    """Takes a count, a condition and the carried values; gives those and what was gathered. The body has a condition before."""
    yield from zip(body.inputs, node.inputs, strict=False)
    yield from zip(body.inputs[1:], body.outputs, strict=False)
    yield from zip(node.outputs, node.inputs[2:], strict=False)
    yield from zip(node.outputs, body.outputs[1:], strict=False)
    yield from product(node.outputs, (*node.inputs[:2], *body.outputs[:1]))


def _scan(node: ir.Node, body: ir.Graph) -> Iterator[Edge]:
    """Takes states, then what is scanned, whose length says how often the body runs; gives the states and what was gathered."""
    states = max(0, len(node.inputs) - node.attributes.get_int("num_scan_inputs", 0))
    yield from zip(body.inputs, node.inputs, strict=False)
    yield from zip(body.inputs[:states], body.outputs, strict=False)
    yield from zip(node.outputs, node.inputs[:states], strict=False)
    yield from zip(node.outputs, body.outputs, strict=False)
    yield from product(node.outputs, node.inputs[states:])


CONTROL = {"If": _if, "Loop": _loop, "Scan": _scan}
