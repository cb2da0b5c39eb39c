"""Subgraphs followed: the branch of an If that is taken, the bodies of Loop and Scan and how often they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.inspect.facts import UNKNOWN, Body, Fact, Shape, merged

if TYPE_CHECKING:
    from sardonyx.inspect.shapes import Walk

Followed = tuple[list[Fact], tuple[Body, ...]]


def _if(walk: Walk, node: ir.Node, inputs: Sequence[Fact]) -> Followed:
    """A condition that is known picks its branch; otherwise either may run."""
    branches = [node.attributes["then_branch"].as_graph(), node.attributes["else_branch"].as_graph()]
    condition = _truth(inputs[0])
    if condition is not None:
        branches = branches[:1] if condition else branches[1:]
    bodies = tuple(Body(graph, walk.graph(graph)) for graph in branches)
    results = [[walk.fact(value) for value in graph.outputs] for graph in branches]
    if len(results) == 1:
        taken = [Fact(fact.type, fact.data, fact.constant and inputs[0].constant) for fact in results[0]]
        return _padded(taken, node), bodies
    return _padded([merged(first, second) for first, second in zip(*results, strict=False)], node), bodies


def _loop(walk: Walk, node: ir.Node, inputs: Sequence[Fact]) -> Followed:
    """The first round of a loop. It counts as often as the loop runs where that is known: a for loop of fixed length."""
    graph = node.attributes["body"].as_graph()
    starts, start_condition = list(inputs[2:]), inputs[1] if len(inputs) > 1 and node.inputs[1] else None
    goes_on = start_condition is None or _truth(start_condition) is True
    truth = np.array(True) if goes_on else None
    opening = [Fact.tensor(onnx.TensorProto.INT64, ()), Fact.tensor(onnx.TensorProto.BOOL, (), truth)]
    for value, fact in zip(graph.inputs, [*opening, *map(_varying, starts)], strict=False):
        walk.facts[value] = fact
    steps = walk.graph(graph)
    ends = [walk.fact(value) for value in graph.outputs]
    rounds = inputs[0].data if inputs and node.inputs[0] else None
    fixed = goes_on and rounds is not None and rounds.size == 1 and bool(ends) and _truth(ends[0]) is True
    states, collected = ends[1 : 1 + len(starts)], ends[1 + len(starts) :]
    stable = all(
        first.sizes is not None and first.sizes == last.sizes for first, last in zip(starts, states, strict=False)
    )
    times = max(0, int(rounds.item())) if fixed and stable and rounds is not None else None
    outputs = [merged(first, last) for first, last in zip(starts, states, strict=False)]
    outputs += [_stacked(fact, times) for fact in collected]
    return _padded(outputs, node), (Body(graph, steps, 1 if times is None else times, times is not None),)


def _scan(walk: Walk, node: ir.Node, inputs: Sequence[Fact]) -> Followed:
    """The body of a scan, as often as its sequences are long."""
    graph = node.attributes["body"].as_graph()
    scanned = node.attributes["num_scan_inputs"].as_int()
    states, sequences = list(inputs[: len(inputs) - scanned]), list(inputs[len(inputs) - scanned :])
    axes = _axes(node, "scan_input_axes", len(sequences))
    slices = [_without(fact, axis) for fact, axis in zip(sequences, axes, strict=False)]
    for value, fact in zip(graph.inputs, [*map(_varying, states), *slices], strict=False):
        walk.facts[value] = fact
    steps = walk.graph(graph)
    ends = [walk.fact(value) for value in graph.outputs]
    length = next(
        (size for fact, axis in zip(sequences, axes, strict=False) if (size := _along(fact, axis)) is not None), None
    )
    outputs = [merged(first, last) for first, last in zip(states, ends, strict=False)]
    collected = ends[len(states) :]
    places = _axes(node, "scan_output_axes", len(collected))
    outputs += [_stacked(fact, length, axis) for fact, axis in zip(collected, places, strict=False)]
    return _padded(outputs, node), (Body(graph, steps, 1 if length is None else length, length is not None),)


FOLLOWED: dict[str, Callable[[Walk, ir.Node, Sequence[Fact]], Followed]] = {"If": _if, "Loop": _loop, "Scan": _scan}
_NEEDS = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body", "num_scan_inputs")}


def followed(node: ir.Node, opset: int) -> bool:
    """Whether the node is a control flow operator in a form that is understood here. Scan 8 had another meaning."""
    if node.domain != "" or node.op_type not in FOLLOWED or (node.op_type == "Scan" and opset < 9):
        return False
    return bool(node.inputs) and all(name in node.attributes for name in _NEEDS[node.op_type])


def _truth(fact: Fact) -> bool | None:
    return None if fact.data is None or fact.data.size != 1 else bool(fact.data.item())


def _varying(fact: Fact) -> Fact:
    """The type and shape of a value that changes from round to round."""
    return Fact(fact.type)


def _stacked(fact: Fact, length: int | None, axis: int = 0) -> Fact:
    """The value with one more dimension: an output of every round."""
    if fact.dtype is None or fact.shape is None:
        return UNKNOWN
    shape: list[int | None] = list(fact.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, length)
    return Fact.tensor(int(fact.dtype), tuple(shape))


def _without(fact: Fact, axis: int) -> Fact:
    """The value without a dimension: what one round of a scan sees."""
    if fact.dtype is None or not fact.shape:
        return UNKNOWN
    shape: Shape = tuple(size for index, size in enumerate(fact.shape) if index != axis % len(fact.shape))
    return Fact.tensor(int(fact.dtype), shape)


def _along(fact: Fact, axis: int) -> int | None:
    return fact.shape[axis] if fact.shape and -len(fact.shape) <= axis < len(fact.shape) else None


def _axes(node: ir.Node, name: str, count: int) -> list[int]:
    found = node.attributes.get(name)
    return [0] * count if found is None else list(found.as_ints())


def _padded(facts: list[Fact], node: ir.Node) -> list[Fact]:
    """As many facts as the node has outputs, whatever a faulty body gave."""
    return (facts + [UNKNOWN] * len(node.outputs))[: len(node.outputs)]
