"""What each product multiplies its weights with: the mean and the second moments of the rows that go in, from a few examples.

A row of a convolution is a patch: what one position of its result is summed from, in the order of `summed_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.deadline import Deadline
from sardonyx.model import Model
from sardonyx.quantize.calibrate import Walk, observed
from sardonyx.quantize.prepare import float_nodes, weights_of
from sardonyx.quantize.qdq import weight_axis
from sardonyx.run.session import Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

# Examples that are looked at, and the rows taken of each.
EXAMPLES, ROWS = 32, 64
# Of these rows so many are kept as they are.
SAMPLED = 8
# Bytes of second moments that are kept at most; the widest products go without.
ROOM = 256 << 20


@dataclass
class Moments:
    """Of rows in groups: `mean` is [groups, row], `second` [groups, row, row]; `sample` has a few of the rows themselves."""

    mean: Array
    second: Array
    count: int = 0
    sample: list[Array] = field(default_factory=list)

    @classmethod
    def empty(cls, groups: int, row: int) -> Moments:
        return cls(np.zeros((groups, row)), np.zeros((groups, row, row)))

    def add(self, rows: Array) -> None:
        """Takes in rows of shape [groups, count, row]."""
        total = self.count + rows.shape[1]
        self.mean += (rows.sum(axis=1, dtype=np.float64) - rows.shape[1] * self.mean) / total
        self.second += (rows.transpose(0, 2, 1) @ rows - rows.shape[1] * self.second) / total
        self.count = total
        self.sample.append(rows[:, :: max(1, ROWS // SAMPLED)].astype(np.float32))

    def moved(self, change: Callable[[Array], Array]) -> Array:
        """By how much the mean of the rows moves when every value is changed so: [groups, row]."""
        rows = np.concatenate(self.sample, axis=1)
        mean: Array = (change(rows) - rows).mean(axis=1, dtype=np.float64)
        return mean


def summed_rows(node: ir.Node, weight: Array) -> Array:
    """The weights as [results, row], a view: of a convolution the channels come last."""
    if node.op_type == "Conv":
        weight = np.moveaxis(weight, 1, -1)
    elif weight_axis(node, weight) != 0:
        weight = weight.T
    return weight.reshape(len(weight), -1)


def unsummed_rows(node: ir.Node, rows: Array, weight: Array) -> Array:
    """[results, row] in the shape of the weights again."""
    if node.op_type == "Conv":
        shape = (weight.shape[0], *weight.shape[2:], weight.shape[1])
        return np.ascontiguousarray(np.moveaxis(rows.reshape(shape), -1, 1))
    return np.ascontiguousarray(rows if weight_axis(node, weight) == 0 else rows.T)


def groups(node: ir.Node) -> int:
    return _attribute(node, "group", 1)


def moments(
    model: Model, batches: Iterable[Batch], settings: Settings, *, limit: Deadline | None = None
) -> dict[str, Moments]:
    """The moments of what the nodes multiply, by the name of the node. Rows are drawn by chance, always the same.

    Of fewer examples where there is no time for more before the limit.
    """
    chosen = _chosen(model)
    found = {
        node.name or "": Moments.empty(groups(node), summed_rows(node, weights_of(node)).shape[1]) for node in chosen
    }
    readers: dict[str, list[ir.Node]] = {}
    for node in chosen:
        readers.setdefault(_read(node), []).append(node)
    random = np.random.default_rng(0)
    for name, value in observed(model, list(readers), Walk(list(_few(batches)), limit), settings) if readers else ():
        for node in readers[name]:
            found[node.name or ""].add(_rows(node, value, random))
    return {name: one for name, one in found.items() if one.count and np.isfinite(one.second).all()}


def _chosen(model: Model) -> list[ir.Node]:
    """The products whose rows can be told and whose moments there is room for."""
    known = [node for node in float_nodes(model) if _is_plain(node)]
    cost = {node.name: 8 * groups(node) * summed_rows(node, weights_of(node)).shape[1] ** 2 for node in known}
    room, kept = ROOM, set()
    for node in sorted(known, key=lambda one: cost[one.name]):
        room -= cost[node.name]
        if room >= 0:
            kept.add(node.name)
    return [node for node in known if node.name in kept]


def _is_plain(node: ir.Node) -> bool:
    if node.op_type == "Conv":
        return _attribute(node, "auto_pad", "NOTSET") == "NOTSET" and min(_attribute(node, "pads", [0])) >= 0
    return len(weights_of(node).shape) == 2 and not _attribute(node, "transA", 0)


def _few(batches: Iterable[Batch]) -> Iterator[Batch]:
    seen = 0
    for batch in batches:
        yield batch
        seen += batch.examples
        if seen >= EXAMPLES:
            return


def _rows(node: ir.Node, value: Array, random: np.random.Generator) -> Array:
    """Some of the rows that the node multiplies when it is given the value: [groups, count, row]."""
    if node.op_type == "Conv":
        return _patches(node, value, random)
    rows = value.reshape(-1, value.shape[-1])
    return random.permutation(rows)[: ROWS * max(1, len(value))][None]


def _patches(node: ir.Node, value: Array, random: np.random.Generator) -> Array:
    kernel = weights_of(node).shape[2:]
    rank = len(kernel)
    strides, dilations = (_attribute(node, word, [1] * rank) for word in ("strides", "dilations"))
    pads = _attribute(node, "pads", [0] * (2 * rank))
    padded = np.pad(value, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    reach = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
    sizes = [(size - span) // step + 1 for size, span, step in zip(padded.shape[2:], reach, strides, strict=True)]
    places = random.permutation(int(np.prod(sizes)))[:ROWS]
    starts = [at * step for at, step in zip(np.unravel_index(places, sizes), strides, strict=True)]
    parts = [
        padded[(slice(None), slice(None), *(s + o * d for s, o, d in zip(starts, offset, dilations, strict=True)))]
        for offset in np.ndindex(*kernel)
    ]  # each [example, channel, place]
    count, own = groups(node), value.shape[1] // groups(node)
    stacked = np.stack(parts).reshape(len(parts), len(value), count, own, len(places))
    # group, example and place, kernel and channel
    return stacked.transpose(2, 1, 4, 0, 3).reshape(count, len(value) * len(places), len(parts) * own)


def _read(node: ir.Node) -> str:
    value = node.inputs[0]
    assert value is not None
    return value.name or ""


def _attribute(node: ir.Node, name: str, default: Any) -> Any:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.value
