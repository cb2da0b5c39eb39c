"""Channels of equal size in the tensors between convolutions that nothing bends: one scale then serves all of them.

What a convolution writes, sums and the next convolutions read without an activation between them is linear: a channel may be
divided by any number where it is written and multiplied by it where it is read.

before:  Conv(w) -> x;   Conv(u) -> y;   Add(x, y) -> z;   z -> Conv(v)
after:   Conv(w / s) -> x / s;   Conv(u / s) -> y / s;   Add -> z / s;   z / s -> Conv(s v)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.quantize.calibrate import observed
from sardonyx.quantize.prepare import constant, copied, is_weighted
from sardonyx.run.session import Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

# Batches of which the sizes of channels are taken, and the least that a channel may count of the largest.
BATCHES, LEAST = 8, 1 / 32

Stream = list[ir.Value]


def evened(model: Model, batches: Iterable[Batch], settings: Settings) -> Model:
    """An equal model whose linear streams have channels of equal size; the same model where there are none."""
    names = [value.name or "" for stream in streams(model) for value in stream]
    if not names:
        return model
    sizes: dict[str, Array] = {}
    for name, value in observed(model, names, list(islice(batches, BATCHES)), settings):
        found = np.abs(value).max(axis=tuple(index for index in range(value.ndim) if index != 1))
        sizes[name] = np.maximum(sizes.get(name, found), found)
    own = copied(model)
    for stream in streams(own):
        _even(stream, _shares([sizes[value.name or ""] for value in stream]))
    return own


def streams(model: Model) -> list[Stream]:
    """Tensors that sums tie together, each written by convolutions and sums and read by convolutions and sums alone."""
    tied: dict[ir.Value, Stream] = {}
    for node in model.ir.graph:
        if _writes(node):
            tied.setdefault(node.outputs[0], [node.outputs[0]])
        if node.op_type == "Add":
            values = [value for value in (*node.inputs, node.outputs[0]) if value is not None]
            joined = list({id(one): one for value in values for one in tied.get(value, [value])}.values())
            tied |= dict.fromkeys(joined, joined)
    found = {id(stream): stream for stream in tied.values()}.values()
    return [stream for stream in found if all(map(_is_linear, stream))]


def _is_linear(value: ir.Value) -> bool:
    writer, uses = value.producer(), list(value.uses())
    if writer is None or value.is_graph_output() or not uses or not (_writes(writer) or _adds(writer)):
        return False
    return all(_adds(use.node) or (use.idx == 0 and _reads(use.node)) for use in uses)


def _adds(node: ir.Node) -> bool:
    """Whether the node adds tensors of one shape."""
    shapes = [value.shape for value in node.inputs if value is not None]
    return node.op_type == "Add" and shapes[0] is not None and shapes[0] == shapes[1] and len(shapes[0]) > 2


def _writes(node: ir.Node) -> bool:
    """A convolution with constant weights, which nobody else uses, and a constant bias if any."""
    return _reads(node, groups=None) and all(_is_own(value) for value in node.inputs[1:] if value is not None)


def _reads(node: ir.Node, groups: int | None = 1) -> bool:
    if node.op_type != "Conv" or not is_weighted(node) or not _is_own(node.inputs[1]):
        return False
    group = node.attributes.get("group")
    return groups is None or (1 if group is None else group.value) == groups


def _is_own(value: ir.Value | None) -> bool:
    return constant(value) is not None and value is not None and len(list(value.uses())) == 1


def _shares(sizes: list[Array]) -> Array:
    """How large each channel is beside the largest, in whichever tensor that is most."""
    share: Array = np.max([size / max(float(size.max()), 1e-30) for size in sizes], axis=0)
    return np.clip(share, LEAST, 1).astype(np.float32)


def _even(stream: Stream, shares: Array) -> None:
    for value in stream:
        writer = value.producer()
        assert writer is not None, "a stream is written by nodes"
        if writer.op_type == "Conv":
            for place in _given(writer, 1, 2):
                _multiply(writer, place, 1 / shares, axis=0)
        for use in value.uses():
            if use.node.op_type == "Conv":
                _multiply(use.node, 1, shares, axis=1)


def _given(node: ir.Node, *places: int) -> Iterator[int]:
    return (place for place in places if place < len(node.inputs) and node.inputs[place] is not None)


def _multiply(node: ir.Node, place: int, factors: Array, *, axis: int) -> None:
    value = node.inputs[place]
    assert value is not None, "asked only of what is given"
    assert value.const_value is not None, "a stream's weights are constants"
    array = value.const_value.numpy()
    shape = [-1 if index == axis else 1 for index in range(array.ndim)]
    value.const_value = ir.tensor((array * factors.reshape(shape)).astype(array.dtype), name=value.name)
