"""A model's own functions written out where they are called, so that every call is counted."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from sardonyx.errors import BrokenModel

# Thirty functions that call one another twice make a thousand million nodes; no honest model comes near this.
MOST_NODES = 1_000_000


def written_out(model: ir.Model) -> ir.Model:
    """The model without functions. The given model stays as it is."""
    if not model.functions:
        return model
    size = _written_size(model)
    if size > MOST_NODES:
        raise BrokenModel(
            f"the model's functions call one another until they are {size:,} nodes; at most {MOST_NODES:,} are followed",
            hint="inline the functions that call others, or do not trust the file",
        )
    expanded: ir.Model = InlinePass()(model.clone()).model
    return expanded


def _written_size(model: ir.Model) -> int:
    """How many nodes there will be, found without writing them."""
    bodies = {name: _calls(function) for name, function in model.functions.items()}
    order = TopologicalSorter({name: [call for call in calls if call in bodies] for name, calls in bodies.items()})
    sizes: dict[ir.OperatorIdentifier, int] = {}
    try:
        for name in order.static_order():
            sizes[name] = sum(sizes.get(call, 1) for call in bodies[name])
    except CycleError as error:
        called = " -> ".join(f"{domain}.{name}" for domain, name, _ in error.args[1])
        raise BrokenModel(
            f"the model's functions call themselves: {called}", hint="run sardonyx check on it"
        ) from error
    return sum(sizes.get(call, 1) for call in _calls(model.graph))


def _calls(graph: ir.Graph | ir.Function) -> list[ir.OperatorIdentifier]:
    return [node.op_identifier() for node in graph.all_nodes()]
