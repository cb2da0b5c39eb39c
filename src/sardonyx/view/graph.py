"""A model as plain data for the page: nodes with their scopes and attributes, values, weights, and overlays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx import progress
from sardonyx.inspect.fold import constant_tensor
from sardonyx.inspect.functions import written_out
from sardonyx.inspect.weights import learned_attributes, weights
from sardonyx.model import Model
from sardonyx.report import plain
from sardonyx.signature import dtype_name
from sardonyx.view.overlay import Overlay, Subject, overlay
from sardonyx.view.scopes import Scope, adopted, scope_of, trimmed
from sardonyx.view.statistics import describe_weight

FORMAT = 1
# Attributes longer than this are shown by their beginning.
LONGEST = 400
STACK_TRACE = "pkg.torch.onnx.stack_trace"


def describe(
    model: str | Path | Model,
    *,
    overlays: Sequence[str | Overlay] = ("precision",),
    against: str | Path | Model | None = None,
    data: Any = None,
    sizes: Mapping[str, int] | None = None,
    provider: str = "cpu",
    threads: int | None = None,
    ledger: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the page shows of a model, as JSON has it. The overlays are in the order given; the first is shown first."""
    loaded = Model.load(model)
    flat = Model(written_out(loaded.ir), path=loaded.path)
    other = None if against is None else Model.load(against)
    subject = Subject(flat, other, data, dict(sizes or {}), provider, threads, ledger)
    described = _Description(subject).to_dict()
    described["overlays"] = []
    with progress.task("overlays", total=len(overlays)) as advance:
        for wanted in overlays:
            found = wanted if isinstance(wanted, Overlay) else overlay(wanted, subject)
            described["overlays"].append(found.to_dict())
            advance()
    result: dict[str, Any] = plain(described)
    return result


class _Description:
    """Numbers every value, weight and scope once, as the nodes name them."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.model = subject.model
        self.facts = subject.facts
        self.values: dict[ir.Value, int] = {}
        self.weights: dict[ir.Value, int] = {}
        self.scopes: dict[Scope, int] = {}

    def to_dict(self) -> dict[str, Any]:
        graph = self.model.ir.graph
        inputs = [self._number(value) for value in graph.inputs if value.name not in graph.initializers]
        with progress.task("reading the graph", total=len(self.subject.nodes)) as advance:
            nodes = [
                self._node(node, scope, advance) for node, scope in zip(self.subject.nodes, self._scopes(), strict=True)
            ]
        outputs = [self._number(value) for value in graph.outputs]
        with progress.task("reading the weights", total=len(self.weights)) as advance:
            stored = [_counted(advance, describe_weight(value.name or "", _tensor(value))) for value in self.weights]
        return {
            "format": FORMAT, "model": self._identity(sum(weight["bytes"] for weight in stored)),
            "inputs": inputs, "outputs": outputs, "nodes": nodes,
            "values": [self._value(value) for value in self.values], "weights": stored, "scopes": list(self.scopes),
        }  # fmt: skip

    def _identity(self, nbytes: int) -> dict[str, Any]:
        source = self.model.ir
        parameters = sum(weight.parameters for weight in weights(source)) + learned_attributes(source)
        return {
            "name": self.model.path.name if self.model.path else source.graph.name or "model",
            "producer": " ".join(filter(None, (source.producer_name, source.producer_version))),
            "opset": self.model.opset, "ir_version": self.model.ir_version, "parameters": parameters,
            "bytes": nbytes,
        }  # fmt: skip

    def _scopes(self) -> list[Scope]:
        """The scope of every node; what lies in the body of a node is in a scope of that name, inside the node's own."""
        by_graph: dict[Any, list[ir.Node]] = {}
        holders: dict[Any, tuple[ir.Node, str]] = {}
        for node in self.subject.nodes:
            by_graph.setdefault(node.graph, []).append(node)
            holders |= {body: (node, name) for name, body in _bodies(node).items()}
        found: dict[ir.Node, Scope] = {}
        for graph, nodes in by_graph.items():
            around = _around(holders.get(graph), found)
            inside = trimmed(adopted([scope_of(node) for node in nodes], _neighbours(nodes)))
            found |= {node: (*around, *scope) for node, scope in zip(nodes, inside, strict=True)}
        return [found[node] for node in self.subject.nodes]

    def _node(self, node: ir.Node, scope: Scope, advance: Any) -> dict[str, Any]:
        bodies = _bodies(node)
        found: dict[str, Any] = {
            "name": node.name or "", "op": node.op_type, "scope": self.scopes.setdefault(scope, len(self.scopes)),
            "inputs": [None if value is None else self._number(value) for value in node.inputs],
            "outputs": [self._number(value) for value in node.outputs],
        }  # fmt: skip
        if node.domain:
            found["domain"] = node.domain
        if bodies:
            found["results"] = [self._number(value) for graph in bodies.values() for value in graph.outputs]
        shown = {name: _shown(attribute) for name, attribute in node.attributes.items() if name not in bodies}
        if shown:
            found["attributes"] = shown
        trace = node.metadata_props.get(STACK_TRACE, "").strip()
        if trace:
            found["source"] = trace[-LONGEST:]
        if node.op_type == "Constant" and not node.domain:
            found["constant"] = True  # shown with the nodes that read it, not as a node of its own
        advance()
        return found

    def _number(self, value: ir.Value) -> int:
        """The place of a value in the list of values, or -1, -2, … for the first, second, … weight."""
        if _tensor(value) is not None:
            return -1 - self.weights.setdefault(value, len(self.weights))
        return self.values.setdefault(value, len(self.values))

    def _value(self, value: ir.Value) -> dict[str, Any]:
        return {"name": value.name or "", "dtype": self.subject.dtype(value), "shape": self._shape(value)}

    def _shape(self, value: ir.Value) -> list[Any] | None:
        """As the model says it, with its names of dimensions; else as it is for the sizes that were given."""
        if value.shape is not None and all(isinstance(dim, int) or dim.value for dim in value.shape):
            return [dim if isinstance(dim, int) else str(dim.value) for dim in value.shape]
        fact = self.facts.get(value)
        if fact is not None and fact.shape is not None:
            return list(fact.shape)
        return None if value.shape is None else [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def _tensor(value: ir.Value) -> Any:
    """The tensor that a value is known to be before the model runs: an initializer, or what a Constant node holds."""
    if value.const_value is not None and value.is_initializer():
        return value.const_value
    node = value.producer()
    return constant_tensor(node) if node is not None and node.op_type == "Constant" and not node.domain else None


def _around(holder: tuple[ir.Node, str] | None, found: Mapping[ir.Node, Scope]) -> Scope:
    """The scope of the body of a node: that of the node, and the node itself."""
    if holder is None:
        return ()
    node, body = holder
    return (*found[node], f"{node.name or node.op_type}: {body}")


def _neighbours(nodes: Sequence[ir.Node]) -> list[list[int]]:
    """For each node the places of those that it reads from and of those that read from it."""
    places = {node: place for place, node in enumerate(nodes)}
    found: list[list[int]] = [[] for _ in nodes]
    for node, place in places.items():
        for maker in filter(None, (value.producer() for value in node.inputs if value is not None)):
            if maker in places and maker.op_type != "Constant":
                found[place].append(places[maker])
                found[places[maker]].append(place)
    return found


def _bodies(node: ir.Node) -> dict[str, ir.Graph]:
    found: dict[str, ir.Graph] = {}
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.GRAPH:
            found[name] = attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            found |= {f"{name} {index}": graph for index, graph in enumerate(attribute.as_graphs())}
    return found


def _shown(attribute: ir.Attr) -> str:
    """An attribute's value as text that fits a page."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        text = f"{dtype_name(value.dtype)}{[int(size) for size in value.shape]}"
        if 0 < value.size <= 8 and value.dtype != ir.DataType.STRING:
            text += f" {np.asarray(value.numpy()).tolist()}"
    elif isinstance(value, bytes):
        text = value.decode(errors="replace")
    elif isinstance(value, float):
        text = f"{value:.7g}"
    elif isinstance(value, list | tuple):
        text = _listed(value)
    else:
        text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _listed(items: Sequence[Any]) -> str:
    shown = ", ".join(f"{item:.7g}" if isinstance(item, float) else str(item) for item in items[:64])
    return f"[{shown}]" if len(items) <= 64 else f"[{shown}, … {len(items)} in all]"


def _counted(advance: Any, made: dict[str, Any]) -> dict[str, Any]:
    advance()
    return made
