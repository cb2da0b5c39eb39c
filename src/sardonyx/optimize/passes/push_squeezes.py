"""Replaces arithmetic behind the Squeeze of a convolution with arithmetic before it, where the convolution can take it in."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import (
    Declined,
    array_of,
    before,
    dims,
    is_standard,
    need_alone,
    opset,
    replace,
    weight,
)
from sardonyx.optimize.passes._rewrite import Rewrite
from sardonyx.signature import Array


class PushSqueezes(Rewrite):
    """Replaces Squeeze(Conv(x)) + constant, as TensorFlow's Conv1D becomes, with Squeeze(Conv(x) + constant)."""

    order = 58
    operators = ("Add", "Sub", "Mul", "Div")

    def rewrite(self, node: ir.Node) -> str | None:
        for place, value in enumerate(node.inputs):
            squeeze = value.producer() if value is not None else None
            constant = array_of(node.inputs[1 - place])
            if value is None or constant is None or not is_standard(squeeze, "Squeeze") or not _convolved(squeeze):
                continue
            axes = array_of(squeeze.inputs[1]) if len(squeeze.inputs) > 1 else None
            shape = dims(squeeze.inputs[0])
            if opset(node) < 13 or axes is None or axes.ndim != 1 or not axes.size or shape is None:
                raise Declined("the axes of the Squeeze before it are not known")
            need_alone(value)
            whole = _unsqueezed(constant, [int(axis) % len(shape) for axis in axes], len(shape))
            if any(size not in (1, dim) for size, dim in zip(whole.shape, shape, strict=True)):
                raise Declined("its constant may spread what the convolution gives")
            operands = [squeeze.inputs[0], squeeze.inputs[0]]
            operands[1 - place] = weight(node, f"{node.outputs[0].name}_whole", whole, dtype=value.dtype)
            result = before(node, node.op_type, operands)
            result.type, result.shape = squeeze.inputs[0].type, squeeze.inputs[0].shape
            replace(node, "Squeeze", [result, squeeze.inputs[1]])
            return "went before the Squeeze of a convolution"
        return None


def _convolved(squeeze: ir.Node) -> bool:
    return squeeze.inputs[0] is not None and is_standard(squeeze.inputs[0].producer(), "Conv", "ConvTranspose")


def _unsqueezed(constant: Array, axes: list[int], rank: int) -> Array:
    """The constant as it spreads over a tensor that still has these axes."""
    if constant.ndim > rank - len(axes):
        raise Declined("its constant has more dimensions than the tensor")
    full = constant.reshape((1,) * (rank - len(axes) - constant.ndim) + constant.shape)
    return np.expand_dims(full, tuple(axes))
