"""Operators without a float64 kernel, written in operators that have one. A rule emits nodes, or declines with False."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from sardonyx.compare.emit import Emitter

Shapes = dict[str, tuple[int, ...]]
Rule = Callable[[Emitter, onnx.NodeProto, Shapes], bool]

# Up to this many taps a convolution is a sum of shifted products; beyond, its windows are gathered first.
TAPS = 64


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _single(emit: Emitter, value: float) -> str:
    """An attribute as the operator knows it: a float32, which 0.01 is not quite."""
    return emit.constant(np.float32(value), np.float64)


def _clipped_line(alpha: float, beta: float) -> Rule:
    def rule(emit: Emitter, node: onnx.NodeProto, _: Shapes) -> bool:
        given = _attributes(node)
        slope, offset = (
            emit.constant(given.get(name, default), np.float64) for name, default in (("alpha", alpha), ("beta", beta))
        )
        line = emit("Add", emit("Mul", node.input[0], slope), offset)
        zero, one = emit.constant(0, np.float64), emit.constant(1, np.float64)
        emit("Min", emit("Max", line, zero), one, output=node.output[0])
        return True

    return rule


def _leaky(emit: Emitter, node: onnx.NodeProto, _: Shapes) -> bool:
    slope = node.input[1] if node.op_type == "PRelu" else _single(emit, _attributes(node).get("alpha", 0.01))
    negative = emit("Less", node.input[0], emit.constant(0, np.float64))
    emit("Where", negative, emit("Mul", node.input[0], slope), node.input[0], output=node.output[0])
    return True


def _softplus(emit: Emitter, node: onnx.NodeProto, _: Shapes) -> bool:
    """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    decay = emit("Exp", emit("Neg", emit("Abs", node.input[0])))
    tail = emit("Log", emit("Add", decay, emit.constant(1, np.float64)))
    emit("Add", emit("Relu", node.input[0]), tail, output=node.output[0])
    return True


def _global_average(emit: Emitter, node: onnx.NodeProto, _: Shapes) -> bool:
    """The mean over every axis after the second, whose number need not be known: flatten, reduce, restore."""
    source = node.input[0]
    head = emit("Slice", emit("Shape", source), emit.constant([0]), emit.constant([2]))
    rank = emit("Shape", emit("Shape", source))
    ones = emit("Expand", emit.constant([1]), emit("Sub", rank, emit.constant([2])))
    rows = emit("Reshape", source, emit("Concat", head, emit.constant([-1]), axis=0))
    mean = emit("ReduceMean", rows, axes=[2]) if emit.opset < 18 else emit("ReduceMean", rows, emit.constant([2]))
    emit("Reshape", mean, emit("Concat", head, ones, axis=0), output=node.output[0])
    return True


@dataclass(frozen=True)
class _Convolution:
    """The numbers of a Conv node, all known before the run."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int
    outputs: int
    per_group: int

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def reach(self) -> list[int]:
        return [(size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True)]


def _convolution(emit: Emitter, node: onnx.NodeProto, shapes: Shapes) -> bool:
    shape = shapes.get(node.input[1])
    if shape is None or len(shape) < 3 or 0 in shape:
        return False
    given = _attributes(node)
    kernel = shape[2:]
    conv = _Convolution(
        kernel,
        tuple(given.get("strides") or [1] * len(kernel)),
        tuple(given.get("dilations") or [1] * len(kernel)),
        given.get("group", 1),
        shape[0],
        shape[1],
    )
    source = _padded(emit, node.input[0], conv, given)
    spatial = emit("Slice", emit("Shape", source), emit.constant([2]), emit.constant([2 + len(kernel)]))
    strides = emit.constant(conv.strides)
    steps = emit("Div", emit("Sub", spatial, emit.constant(conv.reach)), strides)
    size = emit("Add", steps, emit.constant([1] * len(kernel)))
    compute = _shifted if conv.taps <= TAPS else _gathered
    flat = compute(emit, source, node.input[1], conv, emit("Mul", steps, strides))
    batch = emit("Slice", emit("Shape", source), emit.constant([0]), emit.constant([1]))
    shape_out = emit("Concat", batch, emit.constant([conv.outputs]), size, axis=0)
    has_bias = len(node.input) > 2 and bool(node.input[2])
    result = emit("Reshape", flat, shape_out, output=None if has_bias else node.output[0])
    if has_bias:
        bias = emit("Reshape", node.input[2], emit.constant([1, conv.outputs, *[1] * len(kernel)]))
        emit("Add", result, bias, output=node.output[0])
    return True


def _padded(emit: Emitter, source: str, conv: _Convolution, given: dict[str, Any]) -> str:
    mode = given.get("auto_pad", b"NOTSET").decode()
    rank = len(conv.kernel)
    if mode in ("NOTSET", "VALID"):
        pads = list(given.get("pads") or [0] * 2 * rank) if mode == "NOTSET" else [0] * 2 * rank
        if not any(pads):
            return source
        return emit("Pad", source, emit.constant([0, 0, *pads[:rank], 0, 0, *pads[rank:]]))
    # SAME: as many outputs as ceil(size / stride); what is odd goes to the end for UPPER and to the start for LOWER.
    spatial = emit("Slice", emit("Shape", source), emit.constant([2]), emit.constant([2 + rank]))
    strides, one = emit.constant(conv.strides), emit.constant([1] * rank)
    covered = emit("Mul", emit("Div", emit("Sub", spatial, one), strides), strides)
    missing = emit("Sub", emit("Add", covered, emit.constant(conv.reach)), spatial)
    total = emit(
        "Mul", missing, emit("Cast", emit("Greater", missing, emit.constant([0] * rank)), to=onnx.TensorProto.INT64)
    )
    less = emit("Div", total, emit.constant([2] * rank))
    more = emit("Sub", total, less)
    first, last = (less, more) if mode == "SAME_UPPER" else (more, less)
    none = emit.constant([0, 0])
    return emit("Pad", source, emit("Concat", none, first, none, last, axis=0))


def _shifted(emit: Emitter, source: str, weight: str, conv: _Convolution, last: str) -> str:
    """One product for every tap of the kernel, added up: little memory, many nodes."""
    axes, steps = emit.constant(range(2, 2 + len(conv.kernel))), emit.constant(conv.strides)
    depthwise = conv.per_group == 1 and conv.outputs == conv.group
    taps = _by_tap(emit, weight, conv, depthwise)
    total = ""
    for index, position in enumerate(np.ndindex(*conv.kernel)):
        start = [place * step for place, step in zip(position, conv.dilations, strict=True)]
        end = emit("Add", last, emit.constant([place + 1 for place in start]))
        window = emit("Slice", source, emit.constant(start), end, axes, steps)
        tap = emit("Gather", taps, emit.constant(index), axis=0)
        if depthwise:
            product = emit("Mul", window, tap)
        else:
            rows = emit("Reshape", window, emit.constant([0, conv.group, conv.per_group, -1]))
            product = emit("MatMul", tap, rows)
        total = emit("Add", total, product) if total else product
    return total


def _by_tap(emit: Emitter, weight: str, conv: _Convolution, depthwise: bool) -> str:
    """The weight with its taps first: [taps, group, outputs of a group, inputs of a group]."""
    rank = len(conv.kernel)
    turned = emit("Transpose", weight, perm=[*range(2, 2 + rank), 0, 1])
    if depthwise:
        return emit("Reshape", turned, emit.constant([conv.taps, 1, conv.outputs, *[1] * rank]))
    return emit("Reshape", turned, emit.constant([conv.taps, conv.group, conv.outputs // conv.group, conv.per_group]))


def _gathered(emit: Emitter, source: str, weight: str, conv: _Convolution, last: str) -> str:
    """Every window laid out, then one product: many taps, few nodes."""
    rank = len(conv.kernel)
    for axis in range(rank):
        end = emit("Add", emit("Gather", last, emit.constant(axis)), emit.constant(1))
        starts = emit("Range", emit.constant(0), end, emit.constant(conv.strides[axis]))
        offsets = np.arange(conv.kernel[axis]) * conv.dilations[axis]
        indices = emit("Add", emit("Reshape", starts, emit.constant([-1, 1])), emit.constant(offsets[None]))
        source = emit("Gather", source, indices, axis=2 + 2 * axis)
    turned = emit("Transpose", source, perm=[0, 1, *range(3, 3 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2)])
    columns = emit("Reshape", turned, emit.constant([0, conv.group, conv.per_group * conv.taps, -1]))
    rows = emit("Reshape", weight, emit.constant([conv.group, conv.outputs // conv.group, conv.per_group * conv.taps]))
    return emit("MatMul", rows, columns)


RULES: dict[str, Rule] = {
    "Conv": _convolution,
    "GlobalAveragePool": _global_average,
    "HardSigmoid": _clipped_line(0.2, 0.5),
    "LeakyRelu": _leaky,
    "PRelu": _leaky,
    "Softplus": _softplus,
}
