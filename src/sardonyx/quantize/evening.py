"""Channels of equal size around zero in the tensors between convolutions: one scale then serves all of them.

What a convolution writes, sums pass on and the next convolutions read may be divided by any number per channel where it is
written, and multiplied by it where it is read. Relu passes such a number on as well.

before:  Conv(w) -> x;   Conv(u) -> y;   Add(x, y) -> z;   z -> Conv(v)
after:   Conv(w / s) -> x / s;   Conv(u / s) -> y / s;   Add -> z / s;   z / s -> Conv(s v)

Where nothing bends and no reader pads, a number may be taken off each channel as well, from the bias of its writer, and given
back in the bias of its reader: values from 2 to 4 take as many steps as those from -4 to 4, a quarter of them used.

A Clip from 0 to 6 lets channels grow that stay well below 6. What then reaches 6 is cut off, so they are left room: as much as
the channels of one half of the examples are larger than those of the other. Where few pictures stir a channel, as in the last
layers, nothing grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
import onnx_ir as ir

from sardonyx.deadline import Deadline
from sardonyx.model import Model
from sardonyx.quantize.calibrate import Walk, observed
from sardonyx.quantize.moments import groups
from sardonyx.quantize.prepare import copied, initializer, weights_of
from sardonyx.quantize.streams import Stream, may_be_moved, readers, streams, weighed, written_by
from sardonyx.run.session import Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

# Batches of which the sizes of channels are taken, and the least that a channel may count of the largest.
BATCHES, LEAST = 16, 1 / 32
# Behind a Clip some of the difference stays, which is room too.
POWER, LEAST_CLIPPED = 0.75, 1 / 16


def evened(model: Model, batches: Iterable[Batch], settings: Settings, *, limit: Deadline | None = None) -> Model:
    """An equal model whose streams have channels of equal size; the same model where there are none.

    Sizes are taken from the first batches, as many as there is time for before the limit.
    """
    names = [value.name or "" for stream in streams(model) for value in weighed(stream)]
    if not names:
        return model
    seen: dict[str, list[Array]] = {name: [] for name in names}
    for name, value in observed(model, names, Walk(list(islice(batches, BATCHES)), limit), settings):
        others = tuple(index for index in range(value.ndim) if index != 1)
        seen[name].append(np.stack([value.min(axis=others), value.max(axis=others)]))
    own = copied(model)
    for stream in streams(own):
        spans = {value: np.stack(seen[value.name or ""]) for value in weighed(stream)}
        if not all(np.isfinite(span).all() for span in spans.values()):
            continue
        middles = _middles(stream, spans) if may_be_moved(stream) else {}
        _move(stream, middles)
        clipped = any(written_by(value).op_type == "Clip" for value in stream)
        sizes = [np.abs(span - middles.get(value, 0)).max(axis=1) for value, span in spans.items()]
        _even(stream, _shares(sizes, clipped=clipped))
    return own


def _middles(stream: Stream, spans: dict[ir.Value, Array]) -> dict[ir.Value, Array]:
    """What to take off each tensor, per channel. A sum's is that of its terms, so all are as near their middle as can be."""
    written = [value for value in stream if written_by(value).op_type == "Conv"]
    parts: dict[ir.Value, Array] = dict(zip(written, np.eye(len(written)), strict=True))
    for value in stream:
        if value not in parts:
            parts[value] = np.sum([parts[term] for term in written_by(value).inputs if term is not None], axis=0)
    wanted = np.array([(span[:, 0].min(axis=0) + span[:, 1].max(axis=0)) / 2 for span in spans.values()], np.float64)
    terms = np.linalg.lstsq(np.array([parts[value] for value in spans]), wanted, rcond=None)[0]
    return {value: part @ terms for value, part in parts.items()}


def _shares(sizes: list[Array], *, clipped: bool) -> Array:
    """How large each channel is beside the largest, in whichever tensor that is most; of each tensor sizes in every batch."""
    share: Array = np.max([_clipped_share(found) if clipped else _share(found.max(axis=0)) for found in sizes], axis=0)
    return np.clip(share, LEAST, 1).astype(np.float32)


def _share(size: Array) -> Array:
    return size / max(float(size.max()), 1e-30)


def _clipped_share(sizes: Array) -> Array:
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


def _move(stream: Stream, middles: dict[ir.Value, Array]) -> None:
    """Takes the middles off where channels are written, and gives them back where they are read."""
    for value, middle in middles.items():
        if written_by(value).op_type == "Conv":
            _add_to_bias(written_by(value), -middle)
    for value, node in readers(stream) if middles else ():
        weight = weights_of(node).astype(np.float64)
        each = weight.sum(axis=tuple(range(2, weight.ndim)))  # [results, channels], or [channels, 1]
        _add_to_bias(node, each @ middles[value] if groups(node) == 1 else each[:, 0] * middles[value])


def _even(stream: Stream, shares: Array) -> None:
    for value in stream:
        writer = written_by(value)
        if writer.op_type == "Conv":
            for weight in writer.inputs[1:]:
                _multiply(weight, 1 / shares, axis=0)
    for _, node in readers(stream):
        _multiply(node.inputs[1], shares, axis=1 if groups(node) == 1 else 0)


def _multiply(value: ir.Value | None, factors: Array, *, axis: int) -> None:
    if value is None:
        return
    array = _numbers(value)
    _set(value, array * factors.reshape([-1 if index == axis else 1 for index in range(array.ndim)]))


def _add_to_bias(node: ir.Node, numbers: Array) -> None:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        assert node.graph is not None, "a stream's nodes stand in the graph"
        fresh = initializer(node.graph, f"{node.name}_middle", np.zeros(len(numbers), np.float32))
        node.resize_inputs(3)
        node.replace_input_with(2, fresh)
    bias = node.inputs[2]
    assert bias is not None, "made above where there was none"
    _set(bias, _numbers(bias) + numbers)


def _numbers(value: ir.Value) -> Array:
    assert value.const_value is not None, "a stream's weights are constants"
    array: Array = value.const_value.numpy()
    return array


def _set(value: ir.Value, array: Array) -> None:
    value.const_value = ir.tensor(array.astype(np.float32), name=value.name)
