"""`scale * x + shift` along one axis: read off nodes, and multiplied into the weights of a neighbour.

All arithmetic is done in float64 and rounded once, to the type of the weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import (
    FLOATS,
    Declined,
    array_of,
    attribute,
    dims,
    is_standard,
    need_array,
    replace,
    weight,
)
from sardonyx.signature import Array

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Affine:
    """`scale * x + shift`, float64, scalars or one number for each channel. `axis` counts from the front, or from the end."""

    scale: Array
    shift: Array

    def over(self, channels: int) -> tuple[Array, Array]:
        return (np.broadcast_to(part, (channels,)) for part in (self.scale, self.shift))  # type: ignore[return-value]

    @property
    def shifts(self) -> bool:
        return bool(np.any(self.shift != 0))


def of_batch_norm(node: ir.Node) -> Affine:
    """What a BatchNormalization computes from its stored statistics."""
    if attribute(node, "training_mode", 0) or len(node.outputs) > 1:
        raise Declined("it is in training mode")
    if attribute(node, "spatial", 1) != 1:
        raise Declined("it has statistics for every place, not for every channel")
    names = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (
        need_array(value, f"its {name}").astype(np.float64) for name, value in zip(names, node.inputs[1:], strict=True)
    )
    factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
    if not np.all(np.isfinite(factor)):
        raise Declined("its scale is not finite")
    return Affine(factor, bias - mean * factor)


def of_arithmetic(node: ir.Node, rank: int, axis: int) -> tuple[ir.Value, Affine] | None:
    """The computed operand of an Add, Sub, Mul or Div, and what the constant one does to it; None if both are computed.

    The constant must be a number, or have one number for each place along `axis` of a tensor of `rank` dimensions.
    """
    left, right = node.inputs
    constant = array_of(right)
    value, on_the_right = left, True
    if constant is None:
        constant, value, on_the_right = array_of(left), right, False
    if constant is None or value is None or (node.op_type == "Div" and not on_the_right):
        return None
    if value.dtype not in FLOATS:
        raise Declined(f"it computes in {value.dtype}, not in floats")
    operand = _along(constant.astype(np.float64), rank, axis)
    one, zero = np.ones(()), np.zeros(())
    if node.op_type == "Div" and np.any(operand == 0):
        raise Declined("it divides by zero")
    found = {
        "Mul": lambda: Affine(operand, zero),
        "Div": lambda: Affine(1 / operand, zero),
        "Add": lambda: Affine(one, operand),
        "Sub": lambda: Affine(one, -operand) if on_the_right else Affine(-one, operand),
    }
    return value, found[node.op_type]()


def _along(constant: Array, rank: int, axis: int) -> Array:
    """The constant as a scalar or a vector along the axis."""
    if constant.ndim > rank:
        raise Declined("its constant has more dimensions than the tensor")
    shape = (1,) * (rank - constant.ndim) + constant.shape
    if any(size != 1 for place, size in enumerate(shape) if place != axis % rank):
        raise Declined("its constant changes along other axes than the channels")
    return constant.reshape(-1) if constant.size > 1 else constant.reshape(())


def rank_of(product: ir.Node) -> int | None:
    """The dimensions of a product's answer, from its weight or its declared shape."""
    if product.op_type in ("Conv", "ConvTranspose"):
        kernel = array_of(product.inputs[1])
        return None if kernel is None else kernel.ndim
    if product.op_type == "Gemm":
        return 2
    shape = dims(product.inputs[0])
    return None if shape is None or len(shape) < 2 else len(shape)


def channel_axis(product: ir.Node) -> int:
    """Where the answer of a product has its channels."""
    return 1 if product.op_type in ("Conv", "ConvTranspose") else -1


def fold_behind(product: ir.Node, last: ir.Node, affine: Affine) -> None:
    """Puts in the place of `last`, which computes `affine` of the product's answer, the product alone, with other weights."""
    kernel = need_array(product.inputs[1], f"the weight of {product.op_type}")
    kind = product.inputs[1].dtype
    bias, factor = _bias(product)
    axis, groups = _output_axis(product, kernel)
    channels = kernel.shape[axis] * groups
    for part in (affine.scale, affine.shift):
        if part.size not in (1, channels):
            raise Declined(f"it has {part.size} channels, and the {product.op_type} {channels}")
    scale, shift = affine.over(channels)
    moved = factor * bias * scale + shift
    if product.op_type == "MatMul" and np.any(moved != 0):
        raise Declined("a MatMul has no bias to take the shift")
    kernel_type = kernel.dtype
    wide = kernel.astype(np.float64)
    scaled = _scaled(wide, scale, axis, groups).astype(kernel_type)
    if not np.all(np.isfinite(scaled)):
        raise Declined("the new weights would overflow")
    inputs = [product.inputs[0], weight(last, f"{product.inputs[1].name}_folded", scaled, dtype=kind)]
    has_bias = len(product.inputs) > 2 and product.inputs[2] is not None
    if product.op_type != "MatMul" and (has_bias or affine.shifts):
        rounded = np.broadcast_to(moved, (channels,)).astype(kernel_type)
        inputs.append(weight(last, f"{inputs[1].name}_bias", rounded, dtype=kind))
    attributes = {name: item for name, item in product.attributes.items() if name != "beta"}
    replace(last, product.op_type, inputs, attributes)


def fold_ahead(first: ir.Node, product: ir.Node, value: ir.Value, affine: Affine) -> None:
    """Lets the product take `value` itself instead of `affine` of it, with weights that do the rest."""
    kernel = need_array(product.inputs[1], f"the weight of {product.op_type}")
    kind = product.inputs[1].dtype
    axis, groups = _input_axis(product, kernel)
    channels = kernel.shape[axis] * groups
    for part in (affine.scale, affine.shift):
        if part.size not in (1, channels):
            raise Declined(f"it has {part.size} channels, and the {product.op_type} takes {channels}")
    if affine.shifts and is_standard(product, "Conv") and _pads(product):
        raise Declined("the Conv pads with zeros, which its shift would not reach")
    if affine.shifts and product.op_type == "MatMul":
        raise Declined("a MatMul has no bias to take the shift")
    scale, shift = affine.over(channels)
    wide = kernel.astype(np.float64)
    scaled = (_scaled_inputs(wide, scale, axis, groups)).astype(kernel.dtype)
    inputs = [value, weight(product, f"{product.inputs[1].name}_folded", scaled, dtype=kind)]
    bias, factor = _bias(product)
    if affine.shifts:
        alpha = attribute(product, "alpha", 1.0)
        added = _scaled_inputs(wide, shift, axis, groups)
        outputs = _output_axis(product, kernel)[0]
        total = alpha * added.sum(axis=tuple(place for place in range(kernel.ndim) if place != outputs))
        moved = (factor * bias + total).astype(kernel.dtype)
        inputs.append(weight(product, f"{inputs[1].name}_bias", moved, dtype=kind))
    elif len(product.inputs) > 2:
        inputs.append(product.inputs[2])
    keep = {n: item for n, item in product.attributes.items() if not (affine.shifts and n == "beta")}
    replace(product, product.op_type, inputs, keep)
    if not first.outputs[0].uses() and first.graph is not None:
        first.graph.remove(first, safe=True)


def _bias(product: ir.Node) -> tuple[Array, float]:
    """The bias as a vector or a zero, and what Gemm multiplies it by."""
    if product.op_type == "MatMul" or len(product.inputs) < 3 or product.inputs[2] is None:
        return np.zeros(()), 1.0
    found = need_array(product.inputs[2], f"the bias of {product.op_type}").astype(np.float64)
    if found.size != 1 and (found.ndim > 2 or found.size != found.shape[-1]):
        raise Declined("the bias of Gemm differs from row to row")
    factor = attribute(product, "beta", 1.0) if product.op_type == "Gemm" else 1.0
    return (found.reshape(-1) if found.size > 1 else found.reshape(())), factor


def _output_axis(product: ir.Node, kernel: Array) -> tuple[int, int]:
    """Which axis of the weight counts outputs, and how many groups repeat it."""
    if product.op_type == "Conv":
        return 0, 1
    if product.op_type == "ConvTranspose":
        return 1, attribute(product, "group", 1)
    if product.op_type == "Gemm":
        return (0 if attribute(product, "transB", 0) else 1), 1
    if kernel.ndim != 2:
        raise Declined("the weight of the MatMul is not a matrix")
    return 1, 1


def _input_axis(product: ir.Node, kernel: Array) -> tuple[int, int]:
    if product.op_type == "Conv":
        return 1, attribute(product, "group", 1)
    if product.op_type == "Gemm":
        if attribute(product, "transA", 0):
            raise Declined("the Gemm turns its input")
        return (1 if attribute(product, "transB", 0) else 0), 1
    if product.op_type != "MatMul" or kernel.ndim != 2:
        raise Declined(f"the weight of the {product.op_type} is not laid out by its inputs")
    return 0, 1


def _scaled(kernel: Array, scale: Array, axis: int, groups: int) -> Array:
    """The weight times `scale` along its outputs. ConvTranspose has its groups along the other axis."""
    if groups == 1:
        return kernel * scale.reshape([-1 if place == axis else 1 for place in range(kernel.ndim)])
    parts = kernel.reshape(groups, -1, *kernel.shape[1:])
    factors = scale.reshape(groups, 1, -1, *[1] * (kernel.ndim - 2))
    return (parts * factors).reshape(kernel.shape)


def _scaled_inputs(kernel: Array, scale: Array, axis: int, groups: int) -> Array:
    """The weight times `scale` along its inputs. A Conv with groups has its outputs in as many parts."""
    if groups == 1:
        return _scaled(kernel, scale, axis, 1)
    parts = kernel.reshape(groups, -1, *kernel.shape[1:])
    factors = scale.reshape(groups, 1, kernel.shape[1], *[1] * (kernel.ndim - 2))
    return (parts * factors).reshape(kernel.shape)


def _pads(conv: ir.Node) -> bool:
    mode = attribute(conv, "auto_pad", "NOTSET")
    return mode not in ("NOTSET", "VALID") or any(attribute(conv, "pads", ()) or ())
