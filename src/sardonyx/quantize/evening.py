"""Channels of equal size in the tensors between convolutions: one scale then serves all of them.

What a convolution writes, sums pass on and the next convolutions read may be divided by any number per channel where it is
written, and multiplied by it where it is read. Relu passes such a number on as well.

before:  Conv(w) -> x;   Conv(u) -> y;   Add(x, y) -> z;   z -> Conv(v)
after:   Conv(w / s) -> x / s;   Conv(u / s) -> y / s;   Add -> z / s;   z / s -> Conv(s v)

A Clip from 0 to 6 lets channels grow that stay well below 6. What then reaches 6 is cut off, so they are left room: as much as
the channels of one half of the examples are larger than those of the other. Where few pictures stir a channel, as in the last
layers, nothing grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.quantize.calibrate import observed
from sardonyx.quantize.moments import groups
from sardonyx.quantize.prepare import constant, copied, is_weighted, weights_of
from sardonyx.run.session import Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

# Batches of which the sizes of channels are taken, and the least that a channel may count of the largest.
BATCHES, LEAST = 16, 1 / 32
# Behind a Clip some of the difference stays, which is room too.
POWER, LEAST_CLIPPED = 0.75, 1 / 16

Stream = list[ir.Value]


def evened(model: Model, batches: Iterable[Batch], settings: Settings) -> Model:
    """An equal model whose streams have channels of equal size; the same model where there are none."""
    names = [value.name or "" for stream in streams(model) for value in _weighed(stream)]
    if not names:
        return model
    sizes: dict[str, list[Array]] = {name: [] for name in names}
    for name, value in observed(model, names, list(islice(batches, BATCHES)), settings):
        sizes[name].append(np.abs(value).max(axis=tuple(index for index in range(value.ndim) if index != 1)))
    own = copied(model)
    for stream in streams(own):
        clipped = any(_written_by(value).op_type == "Clip" for value in stream)
        _even(stream, _shares([sizes[value.name or ""] for value in _weighed(stream)], clipped=clipped))
    return own


def streams(model: Model) -> list[Stream]:
    """Tensors that sums and activations tie together, each written by them or convolutions and read by nothing else."""
    tied: dict[ir.Value, Stream] = {}
    for node in model.ir.graph:
        if _writes(node):
            tied.setdefault(node.outputs[0], [node.outputs[0]])
        if node.op_type == "Add" or _bends(node):
            inputs = node.inputs if node.op_type == "Add" else node.inputs[:1]
            values = [value for value in (*inputs, node.outputs[0]) if value is not None]
            joined = list({id(one): one for value in values for one in tied.get(value, [value])}.values())
            tied |= dict.fromkeys(joined, joined)
    found = {id(stream): stream for stream in tied.values()}.values()
    return [stream for stream in found if all(map(_passes_on, stream))]


def _passes_on(value: ir.Value) -> bool:
    writer, uses = value.producer(), list(value.uses())
    if writer is None or value.is_graph_output() or not uses:
        return False
    written = _writes(writer) or _adds(writer) or _bends(writer)
    return written and all(_adds(use.node) or (use.idx == 0 and (_reads(use.node) or _bends(use.node))) for use in uses)


def _weighed(stream: Stream) -> Stream:
    """The tensors that are rounded: not those that an activation reads, which is computed with what it reads."""
    return [value for value in stream if not all(_bends(use.node) for use in value.uses())]


def _bends(node: ir.Node) -> bool:
    """An activation that keeps what is positive, up to a number if any."""
    if node.op_type == "Clip":
        least, most = (constant(node.inputs[place]) if place < len(node.inputs) else None for place in (1, 2))
        return least is not None and most is not None and least.numpy().item() == 0 < most.numpy().item()
    return node.op_type == "Relu"


def _adds(node: ir.Node) -> bool:
    """Whether the node adds tensors of one shape."""
    shapes = [value.shape for value in node.inputs if value is not None]
    return node.op_type == "Add" and shapes[0] is not None and shapes[0] == shapes[1] and len(shapes[0]) > 2


def _writes(node: ir.Node) -> bool:
    """A convolution with constant weights, which nobody else uses, and a constant bias if any."""
    return _convolves(node) and all(_is_own(value) for value in node.inputs[1:] if value is not None)


def _reads(node: ir.Node) -> bool:
    """A convolution of all channels, or of each channel by itself."""
    return _convolves(node) and (groups(node) == 1 or weights_of(node).shape[:2] == (groups(node), 1))


def _convolves(node: ir.Node) -> bool:
    return node.op_type == "Conv" and is_weighted(node) and _is_own(node.inputs[1])


def _written_by(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None, "a stream is written by nodes"
    return node


def _is_own(value: ir.Value | None) -> bool:
    return constant(value) is not None and value is not None and len(list(value.uses())) == 1


def _shares(sizes: list[list[Array]], *, clipped: bool) -> Array:
    """How large each channel is beside the largest, in whichever tensor that is most; of each tensor sizes in every batch."""
    share: Array = np.max(
        [_clipped_share(found) if clipped else _share(np.max(found, axis=0)) for found in sizes], axis=0
    )
    return np.clip(share, LEAST, 1).astype(np.float32)


def _share(size: Array) -> Array:
    return size / max(float(size.max()), 1e-30)


def _clipped_share(sizes: list[Array]) -> Array:
    """The same with room for what was not seen, told by what one half of the batches shows and the other does not."""
    if len(sizes) < 2:
        return np.ones_like(sizes[0])
    share = np.maximum(_share(np.max(sizes, axis=0)), LEAST_CLIPPED)
    halves = [
        np.maximum(np.max(half, axis=0) / max(float(np.max(sizes)), 1e-30), LEAST_CLIPPED)
        for half in (sizes[::2], sizes[1::2])
    ]
    room = float((np.maximum(*halves) / np.minimum(*halves)).max())
    return np.minimum(room * share, 1) ** POWER


def _even(stream: Stream, shares: Array) -> None:
    for value in stream:
        writer = _written_by(value)
        if writer.op_type == "Conv":
            for place in _given(writer, 1, 2):
                _multiply(writer, place, 1 / shares, axis=0)
        for use in value.uses():
            if use.node.op_type == "Conv":
                _multiply(use.node, 1, shares, axis=1 if groups(use.node) == 1 else 0)


def _given(node: ir.Node, *places: int) -> Iterator[int]:
    return (place for place in places if place < len(node.inputs) and node.inputs[place] is not None)


def _multiply(node: ir.Node, place: int, factors: Array, *, axis: int) -> None:
    value = node.inputs[place]
    assert value is not None, "asked only of what is given"
    assert value.const_value is not None, "a stream's weights are constants"
    array = value.const_value.numpy()
    shape = [-1 if index == axis else 1 for index in range(array.ndim)]
    value.const_value = ir.tensor((array * factors.reshape(shape)).astype(array.dtype), name=value.name)
