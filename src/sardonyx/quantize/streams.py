"""Streams: tensors between convolutions whose channels may be scaled where they are written, and back where they are read."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.quantize.moments import groups
from sardonyx.quantize.prepare import constant, is_weighted, weights_of

Stream = list[ir.Value]


def streams(model: Model) -> list[Stream]:
    """Tensors that sums and activations tie together, each written by them or convolutions and read by nothing else.

    Within a stream they stand in the order in which they are computed.
    """
    tied: dict[ir.Value, Stream] = {}
    place: dict[ir.Value, int] = {}
    for index, node in enumerate(model.ir.graph):
        place |= dict.fromkeys(node.outputs, index)
        if _writes(node):
            tied.setdefault(node.outputs[0], [node.outputs[0]])
        if node.op_type == "Add" or bends(node):
            inputs = node.inputs if node.op_type == "Add" else node.inputs[:1]
            values = [value for value in (*inputs, node.outputs[0]) if value is not None]
            joined = list({id(one): one for value in values for one in tied.get(value, [value])}.values())
            tied |= dict.fromkeys(joined, joined)
    found = {id(stream): stream for stream in tied.values()}.values()
    return [sorted(stream, key=lambda value: place[value]) for stream in found if all(map(_passes_on, stream))]


def weighed(stream: Stream) -> Stream:
    """The tensors that are rounded: not those that an activation reads, which is computed with what it reads."""
    return [value for value in stream if not all(bends(use.node) for use in value.uses())]


def bends(node: ir.Node) -> bool:
    """An activation that keeps what is positive, up to a number if any."""
    if node.op_type == "Clip":
        least, most = (constant(node.inputs[place]) if place < len(node.inputs) else None for place in (1, 2))
        return least is not None and most is not None and least.numpy().item() == 0 < most.numpy().item()
    return node.op_type == "Relu"


def written_by(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None, "a stream is written by nodes"
    return node


def readers(stream: Stream) -> list[tuple[ir.Value, ir.Node]]:
    """The tensors that convolutions read, each with its reader."""
    return [(value, use.node) for value in stream for use in value.uses() if use.node.op_type == "Conv"]


def may_be_moved(stream: Stream) -> bool:
    """Whether a number may be taken off every channel: nothing bends, and no reader has zeros around what it reads."""
    return not any(bends(written_by(value)) for value in stream) and all(
        _is_unpadded(node) and all(map(_is_own, node.inputs[2:])) for _, node in readers(stream)
    )


def _is_unpadded(node: ir.Node) -> bool:
    pads, auto = node.attributes.get("pads"), node.attributes.get("auto_pad")
    return (pads is None or not any(pads.value)) and (auto is None or auto.value in ("NOTSET", "VALID"))


def _passes_on(value: ir.Value) -> bool:
    writer, uses = value.producer(), list(value.uses())
    if writer is None or value.is_graph_output() or not uses:
        return False
    if any(use.node.graph is not writer.graph for use in uses):  # a branch or a loop reads it
        return False
    written = _writes(writer) or _adds(writer) or bends(writer)
    return written and all(_adds(use.node) or (use.idx == 0 and (_reads(use.node) or bends(use.node))) for use in uses)


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


def _is_own(value: ir.Value | None) -> bool:
    """A constant that one node alone takes, and that nobody sees."""
    if value is None or constant(value) is None or value.is_graph_output():
        return False
    return len(list(value.uses())) == 1
