"""Channels of an activation that are far larger than the others, multiplied apart: one scale then serves all that remain.

before:  x, w -> MatMul -> y
after:   Mul(x, 0 or 1), w -> MatMul -> rest;  Gather(x), rows of w -> MatMul -> few;  Add(rest, few) -> y
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.quantize.calibrate import observed
from sardonyx.quantize.prepare import copied, initializer, is_weighted, weights_of
from sardonyx.run.session import Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

# So many channels go apart: a product so narrow costs next to nothing.
CHANNELS = 8
# Without them the range of the others must shrink by this at least: a bit more for everyone.
GAIN = 2.0
# What stands out does so from the first.
BATCHES = 16


@dataclass(frozen=True)
class Apart:
    """An equal model, and the names of the narrow products in it, which stay in float."""

    model: Model
    products: frozenset[str]


def apart(model: Model, batches: Iterable[Batch], settings: Settings) -> Apart | None:
    """The model with outliers multiplied apart, before its products of matrices; None where nothing stands out."""
    read = _read_by_products(model)
    sizes: dict[str, Array] = {}
    for name, value in observed(model, list(read), list(islice(batches, BATCHES)), settings) if read else ():
        found = np.abs(value).reshape(-1, value.shape[-1]).max(axis=0, initial=0)
        sizes[name] = np.maximum(sizes.get(name, found), found)
    chosen = {name: places for name, size in sizes.items() if (places := _outliers(size)) is not None}
    if not chosen:
        return None
    own = copied(model)
    products = [
        product
        for name, nodes in _read_by_products(own).items()
        if name in chosen
        for product in _part(own.ir.graph, nodes, chosen[name])
    ]
    own.ir.graph.sort()
    return Apart(own, frozenset(products))


def _outliers(sizes: Array) -> Array | None:
    """Where the largest channels are, if they stand out."""
    if len(sizes) <= 2 * CHANNELS:
        return None
    order = np.argsort(-sizes)
    stands_out = sizes[order[0]] > GAIN * sizes[order[CHANNELS]]
    return np.sort(order[:CHANNELS]) if stands_out else None


def _read_by_products(model: Model) -> dict[str, list[ir.Node]]:
    """The activations that are multiplied by constant matrices, and the nodes that do it."""
    found: dict[str, list[ir.Node]] = {}
    for node in model.ir.graph:
        if node.op_type == "MatMul" and is_weighted(node) and weights_of(node).ndim == 2 and node.inputs[0] is not None:
            found.setdefault(node.inputs[0].name or "", []).append(node)
    return found


def _part(graph: ir.Graph, nodes: list[ir.Node], places: Array) -> list[str]:
    """Parts the activation once for all nodes that multiply it; whoever else reads it goes on with the whole."""
    x = nodes[0].inputs[0]
    assert x is not None
    mask = np.ones(len(weights_of(nodes[0])), np.float32)
    mask[places] = 0
    rest = _node("Mul", [x, initializer(graph, f"{x.name}_without", mask)], f"{x.name}_rest", x)
    few = _node(
        "Gather", [x, initializer(graph, f"{x.name}_places", places.astype(np.int64))], f"{x.name}_few", x, axis=-1
    )
    graph.insert_before(nodes[0], [rest, few])
    return [_multiply(graph, node, rest.outputs[0], few.outputs[0], places) for node in nodes]


def _multiply(graph: ir.Graph, node: ir.Node, rest: ir.Value, few: ir.Value, places: Array) -> str:
    """Adds the product of the few to that of the rest, which the node goes on to make, and gives its name."""
    result, rows = node.outputs[0], np.ascontiguousarray(weights_of(node)[places])
    users = [(use.node, use.idx) for use in result.uses()]
    narrow = _node("MatMul", [few, initializer(graph, f"{node.name}_rows", rows)], f"{node.name}_apart", result)
    total = _node("Add", [result, narrow.outputs[0]], f"{node.name}_total", result)
    node.replace_input_with(0, rest)
    for user, index in users:
        user.replace_input_with(index, total.outputs[0])
    graph.insert_after(node, [narrow, total])
    _keep_name(graph, result, total.outputs[0])
    return narrow.name or ""


def _keep_name(graph: ir.Graph, before: ir.Value, after: ir.Value) -> None:
    """An output of the model keeps its name."""
    for index, output in enumerate(graph.outputs):
        if output is before:
            before.name, after.name = after.name, before.name
            graph.outputs[index] = after


def _node(kind: str, inputs: list[ir.Value], name: str, like: ir.Value, **attributes: int) -> ir.Node:
    node = ir.node(kind, inputs, attributes, name=name)
    node.outputs[0].name, node.outputs[0].dtype = name, like.dtype
    return node
