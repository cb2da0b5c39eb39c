"""Activation memory: what is alive at once when the nodes run in their order, and all of it together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from sardonyx.inspect.facts import Body, Step

# Operators that give back the bytes of their first input under another shape; runtimes copy nothing.
SHARES_INPUT = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))


@dataclass
class Memory:
    """Bytes of activations. `unsized` counts the values whose size is unknown and left out."""

    peak: int = 0
    total: int = 0
    unsized: int = 0
    peak_at: ir.Node | None = None


@dataclass
class _Alive:
    """Buffers by the value that owns them. Values that share a buffer keep it alive together."""

    owner: dict[ir.Value, ir.Value] = field(default_factory=dict)
    last_use: dict[ir.Value, int] = field(default_factory=dict)

    def root(self, value: ir.Value) -> ir.Value:
        return self.owner.get(value, value)

    def use(self, values: Iterable[ir.Value], moment: int) -> None:
        for value in values:
            self.last_use[self.root(value)] = moment


def activations(steps: Sequence[Step], outputs: Sequence[ir.Value]) -> Memory:
    """The memory of everything the steps compute. Inputs belong to the caller, and constants to the weights."""
    alive = _plan(steps, outputs)
    found, live = Memory(), 0
    sizes: dict[ir.Value, int] = {}
    for moment, step in enumerate(steps):
        new = _new_buffers(step, alive, found)
        sizes.update(new)
        inner = _bodies(step)
        found.total += inner.total + sum(new.values())
        found.unsized += inner.unsized
        # The result of a branch is the node's own; a loop holds its results beside those of the round that runs.
        at_once = live + (max(sum(new.values()), inner.peak) if step.choice else sum(new.values()) + inner.peak)
        if at_once > found.peak:
            found.peak, found.peak_at = at_once, step.node
        live += sum(new.values())
        for value in {alive.root(item) for item in (*_reads(step.node), *step.node.outputs)}:
            if alive.last_use.get(value, moment) <= moment:
                live -= sizes.pop(value, 0)
    return found


def _plan(steps: Sequence[Step], outputs: Sequence[ir.Value]) -> _Alive:
    alive = _Alive()
    for moment, step in enumerate(steps):
        source = step.node.inputs[0] if step.node.inputs else None
        if step.node.op_type in SHARES_INPUT and source is not None:
            alive.owner[step.node.outputs[0]] = alive.root(source)
        alive.use(_reads(step.node), moment)
    alive.use(outputs, len(steps))
    return alive


def _new_buffers(step: Step, alive: _Alive, found: Memory) -> dict[ir.Value, int]:
    buffers = {}
    for value, fact in zip(step.node.outputs, step.outputs, strict=True):
        if value.name == "" or fact.constant or value in alive.owner:
            continue
        if fact.nbytes is None:
            found.unsized += 1
        buffers[value] = fact.nbytes or 0
    return buffers


def _bodies(step: Step) -> Memory:
    parts = [_body(body) for body in step.bodies]
    return Memory(
        max((part.peak for part in parts), default=0),
        max((part.total for part in parts), default=0),
        max((part.unsized for part in parts), default=0),
    )


def _body(body: Body) -> Memory:
    return activations(body.steps, body.graph.outputs)


def _reads(node: ir.Node) -> set[ir.Value]:
    """The values a node needs, those that its subgraphs take from outside included."""
    found = {value for value in node.inputs if value is not None}
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            inside = attribute.as_graph()
            for inner in inside:
                found |= _reads(inner)
            found |= set(inside.outputs)
    return found
