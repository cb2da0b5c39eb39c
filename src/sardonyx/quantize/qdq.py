"""QuantizeLinear and DequantizeLinear put around chosen nodes, in the places where onnxruntime fuses them into INT8 kernels.

before:  x, w, b -> Conv -> Relu -> y
after:   Dequantize(Quantize(x)), Dequantize(w8), Dequantize(b32) -> Conv -> Relu -> Dequantize(Quantize(y))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes

from sardonyx import deadline
from sardonyx.model import Model
from sardonyx.quantize.prepare import constant, copied, initializer, is_weighted
from sardonyx.quantize.steps import Plan, Step, activation_step, rounded, weight_step
from sardonyx.signature import Array

Range = tuple[float, float]


class Rounds(Protocol):
    """Who turns weights into integers, and the bias into one that makes good what integers do to the mean of the result."""

    def weights(self, node: ir.Node, weight: Array, step: Step, *, biased: bool) -> Array: ...
    def bias(self, node: ir.Node, weight: Array, integers: Array, step: Step, bias: Array, into: Step) -> Array: ...


# Operators that onnxruntime computes on 8-bit integers, each with a scale of its own.
ARITHMETIC = frozenset((
    "Add", "Mul", "GlobalAveragePool", "AveragePool", "Concat", "Sigmoid", "LeakyRelu", "HardSigmoid",
))  # fmt: skip
# Of these the ones with a single input that carries activations.
_SINGLE = ("GlobalAveragePool", "AveragePool", "Sigmoid", "LeakyRelu", "HardSigmoid")
# Operators that only move values: their result keeps the scale of what goes in.
MOVING = frozenset(("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze"))
# Operators that the kernel before them swallows, where the range of the quantised result says as much.
CLAMPING = frozenset(("Relu", "Clip"))

_TYPES = {"uint8": ir.DataType.UINT8, "int8": ir.DataType.INT8, "float32": ir.DataType.FLOAT}


def quantizable(model: Model) -> list[ir.Node]:
    """Every node that a plan may name: products with constant weights, and what onnxruntime computes on integers around them."""
    return [node for node in model.ir.graph if is_weighted(node) or _is_arithmetic(node) or _is_moving(node)]


def watched(model: Model) -> list[str]:
    """The tensors whose ranges a plan may need."""
    return list({value.name or "": None for value in _ranged(model) if constant(value) is None})


def constant_ranges(model: Model) -> dict[str, Range]:
    """The ranges of constants that are added to or multiplied with activations."""
    found = {value.name or "": constant(value) for value in _ranged(model)}
    arrays = {name: tensor.numpy() for name, tensor in found.items() if tensor is not None and tensor.size}
    return {name: (float(array.min()), float(array.max())) for name, array in arrays.items()}


def after_clamp(node: ir.Node) -> ir.Value:
    """The result of a node, or of the Relu or Clip that alone uses it."""
    result = node.outputs[0]
    uses = list(result.uses())
    if len(uses) == 1 and not result.is_graph_output() and not _is_moving(node):
        user = uses[0].node
        if user.op_type in CLAMPING and uses[0].idx == 0 and user.graph is node.graph:
            return user.outputs[0]
    return result


def with_qdq(model: Model, plan: Plan, ranges: Mapping[str, Range], rounding: Rounds | None = None) -> Model:
    """A new model in which the nodes of the plan compute on integers."""
    own = copied(model)
    _Writer(own.ir.graph, plan, ranges, rounding).write()
    passes.RemoveUnusedNodesPass()(own.ir)
    return own


class _Writer:
    def __init__(
        self, graph: ir.Graph, plan: Plan, ranges: Mapping[str, Range], rounding: Rounds | None = None
    ) -> None:
        self.graph, self.plan, self.ranges, self.rounding = graph, plan, ranges, rounding
        self.steps: dict[str, Step] = {}
        self.real: dict[str, ir.Value] = {}

    def write(self) -> None:
        for node in list(self.graph):
            deadline.check()
            if node.name not in self.plan.nodes or not self._ready(node):
                self._shield(node)
                continue
            for index, value in enumerate(node.inputs):
                if value is not None and value in _streams(node):
                    node.replace_input_with(index, self._dequantized(value, node))
            if node.op_type == "HardSigmoid":
                self._saturate(node)
                continue
            if is_weighted(node):
                self._weigh(node)
            self._finish(node)
        self.graph.sort()

    def _ready(self, node: ir.Node) -> bool:
        if _is_moving(node):  # pays only between integers
            return (node.inputs[0].name or "") in self.real or self._made_by_us(node.inputs[0])
        streams = [value for value in _streams(node) if not self._made_by_us(value)]
        wanted = [*streams, after_clamp(node)]
        return all((value.name or "") in self.ranges or value.name in self.steps for value in wanted)

    def _shield(self, node: ir.Node) -> None:
        """Keeps a node in float that stands between integers: onnxruntime would quantise its weights without being asked.

        It does so where the result goes straight to QuantizeLinear. A LeakyRelu of slope 1 changes no value, is fused
        into the node before it, and hides the pattern.
        """
        if is_weighted(node) and node.op_type != "MatMul" and self._made_by_us(node.inputs[0]):
            result = node.outputs[0]
            same = ir.node("LeakyRelu", [result], {"alpha": 1.0}, name=f"{node.name}_in_float")
            users = [(use.node, use.idx) for use in result.uses() if use.node is not same]
            if result.is_graph_output() or not users:
                return
            self.graph.insert_after(node, same)
            _named(same.outputs[0], f"{result.name}_in_float", result, "float32")
            for user, index in users:
                user.replace_input_with(index, same.outputs[0])

    def _saturate(self, node: ir.Node) -> None:
        """Writes HardSigmoid, for which onnxruntime has no kernel on integers, as a sum, for which it has one.

        clip(a x + b, 0, 1) = a clip(x + b / a, 0, 1 / a). Integers over [0, 1 / a] cut the sum off by themselves, and a is
        in the scale by which they become real again.
        """
        name, result = node.outputs[0].name or "", node.outputs[0]
        slope, shift = _flag(node, "alpha", 0.2), _flag(node, "beta", 0.5) / _flag(node, "alpha", 0.2)
        added = activation_step(min(shift, 0.0), max(shift, 0.0), self.plan.activation)
        other = self._stored(f"{node.name}_shift", rounded(np.asarray(shift, np.float32), added), added)
        total = ir.node("Add", [node.inputs[0], other], name=f"{node.name}_sum")
        _named(total.outputs[0], f"{name}_sum", result, "float32")
        wide, unit = (activation_step(0.0, high, self.plan.activation) for high in (1 / slope, 1.0))
        zero = self._constant(f"{name}_zero", wide.zero)
        scales = [self._constant(f"{name}_{word}", step.scale) for word, step in (("scale_in", wide), ("scale", unit))]
        narrow = ir.node("QuantizeLinear", [total.outputs[0], scales[0], zero], name=f"{name}_QuantizeLinear")
        _named(narrow.outputs[0], f"{name}_quantized", result, self.plan.activation)
        real = ir.node("DequantizeLinear", [narrow.outputs[0], scales[1], zero], name=f"{name}_DequantizeLinear")
        self.graph.insert_after(node, [total, narrow, real])
        self.steps[name] = unit
        self.real[name] = _named(real.outputs[0], f"{name}_dequantized", result, "float32")
        for use in list(result.uses()):
            use.node.replace_input_with(use.idx, real.outputs[0])
        self._redirect_outputs(result, real.outputs[0])

    def _made_by_us(self, value: ir.Value) -> bool:
        return any(value is made for made in self.real.values())

    def _finish(self, node: ir.Node) -> None:
        """Quantises the result where the kernel needs it, or where it costs nothing."""
        result = after_clamp(node)
        if _is_moving(node):
            self.steps[result.name or ""] = self._step_of(node.inputs[0])
        if node.op_type in ("MatMul", "Gemm") and not self._feeds_integers(result):
            return  # the product comes out in float, with no second rounding
        users = [(use.node, use.idx) for use in result.uses()]
        real = self._dequantized(result, node)
        for user, index in users:
            user.replace_input_with(index, real)
        self._redirect_outputs(result, real)

    def _redirect_outputs(self, result: ir.Value, real: ir.Value) -> None:
        """A graph output keeps its name: the real value takes it over."""
        for index, output in enumerate(self.graph.outputs):
            if output is result:
                name, result.name = result.name, f"{result.name}_before_quantize"
                real.name, real.shape, real.type = name, result.shape, result.type
                self.graph.outputs[index] = real

    def _feeds_integers(self, result: ir.Value) -> bool:
        uses = [use.node for use in result.uses()]
        return bool(uses) and not result.is_graph_output() and all(node.name in self.plan.nodes for node in uses)

    def _step_of(self, value: ir.Value) -> Step:
        name = value.name or ""
        for source, real in self.real.items():
            if real is value:
                name = source
        if name not in self.steps:
            self.steps[name] = activation_step(*self.ranges[name], self.plan.activation)
        return self.steps[name]

    def _dequantized(self, value: ir.Value, node: ir.Node) -> ir.Value:
        """The value after a round trip through integers; one trip serves every node."""
        if self._made_by_us(value):
            return value
        name = value.name or ""
        if name not in self.real:
            step = self._step_of(value)
            scale, zero = self._constant(f"{name}_scale", step.scale), self._constant(f"{name}_zero", step.zero)
            narrow = ir.node("QuantizeLinear", [value, scale, zero], name=f"{name}_QuantizeLinear")
            wide = ir.node("DequantizeLinear", [narrow.outputs[0], scale, zero], name=f"{name}_DequantizeLinear")
            self._place(value, node, narrow, wide)
            self.real[name] = _named(wide.outputs[0], f"{name}_dequantized", value, "float32")
            _named(narrow.outputs[0], f"{name}_quantized", value, self.plan.activation)
        return self.real[name]

    def _place(self, value: ir.Value, node: ir.Node, *new: ir.Node) -> None:
        producer = value.producer()
        if producer is not None and producer.graph is self.graph:
            self.graph.insert_after(producer, new)
        else:
            self.graph.insert_before(node, new)

    def _weigh(self, node: ir.Node) -> None:
        """Turns weights and bias into integers. A bias has the scale of the sums it is added to."""
        value = node.inputs[1]
        weight = _array(value)
        axis = weight_axis(node, weight) if self.plan.per_channel else None
        step = weight_step(weight, axis, self.plan, summed_order(node, weight))
        bias = bias_of(node, weight)
        into = self._step_of(node.inputs[0])
        if bias is not None:
            step = _with_room(step, into, bias)
        integers = self._integers(node, weight, step, biased=bias is not None)
        if bias is not None:
            if self.rounding is not None:
                bias = self.rounding.bias(node, weight, integers, step, bias, into)
            sums = Step(into.scale * step.scale, np.zeros(step.scale.shape, np.int32), None if axis is None else 0)
            node.replace_input_with(2, self._stored(f"{node.name}_bias", rounded(bias, sums), sums))
        node.replace_input_with(1, self._stored(f"{node.name}_weight", integers, step))

    def _integers(self, node: ir.Node, weight: Array, step: Step, *, biased: bool) -> Array:
        if self.rounding is None:
            return rounded(weight, step)
        return self.rounding.weights(node, weight, step, biased=biased)

    def _stored(self, name: str, integers: Array, step: Step) -> ir.Value:
        parts = [self._constant(f"{name}_quantized", integers), self._constant(f"{name}_scale", step.scale)]
        parts.append(self._constant(f"{name}_zero", step.zero))
        attributes = {} if step.axis is None else {"axis": step.axis}
        wide = ir.node("DequantizeLinear", parts, attributes, name=f"{name}_DequantizeLinear")
        wide.outputs[0].name = f"{name}_dequantized"
        self.graph.insert_before(self.graph[0], wide)
        return wide.outputs[0]

    def _constant(self, name: str, array: Array) -> ir.Value:
        return initializer(self.graph, name, array)


def weight_axis(node: ir.Node, weight: Array) -> int:
    """The axis of the weights that counts results."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "Gemm" and _flag(node, "transB"):
        return 0
    return weight.ndim - 1


def summed_order(node: ir.Node, weight: Array) -> tuple[int, ...] | None:
    """The axes of the weights, the results' first, then those summed over, in the order in which onnxruntime's kernels do.

    None for a depthwise convolution, whose kernel adds in 32 bits.
    """
    results = weight_axis(node, weight)
    summed = [index for index in range(weight.ndim) if index != results]
    if node.op_type != "Conv":
        return (results, *summed)
    depthwise = weight.shape[1] == 1 and _flag(node, "group", 1) == weight.shape[0]
    return None if depthwise else (results, *summed[1:], summed[0])


def bias_of(node: ir.Node, weight: Array) -> Array | None:
    """The bias where it is one number per result, which is all that the kernels add."""
    tensor = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    results = weight.shape[weight_axis(node, weight)]
    if tensor is None or tensor.size != results or (node.op_type == "Gemm" and _flag(node, "beta", 1.0) != 1.0):
        return None
    return tensor.numpy().reshape(-1)


def _with_room(step: Step, into: Step, bias: Array) -> Step:
    """Wider weight steps where the bias would not fit 32 bits."""
    needed = np.abs(bias) / (float(into.scale) * 2.0**30)
    needed = needed if step.axis is not None else needed.max(initial=0)
    return replace(step, scale=np.maximum(step.scale, needed).astype(np.float32))


def _ranged(model: Model) -> Iterator[ir.Value]:
    for node in quantizable(model):
        yield from (value for value in (*_streams(node), after_clamp(node)) if value.name and _is_float(value))


def _flag(node: ir.Node, name: str, default: float = 0) -> float:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.value


def _streams(node: ir.Node) -> list[ir.Value]:
    """The inputs that carry activations."""
    if is_weighted(node) or _is_moving(node) or node.op_type in _SINGLE:
        return [node.inputs[0]]
    return [value for value in node.inputs if value is not None]


def _is_arithmetic(node: ir.Node) -> bool:
    if node.op_type not in ARITHMETIC or node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "HardSigmoid" and not _flag(node, "alpha", 0.2) > 0:
        return False
    return all(value is not None and _is_float(value) for value in (*node.inputs, node.outputs[0]))


def _is_moving(node: ir.Node) -> bool:
    return (
        node.op_type in MOVING and len(node.outputs) == 1 and node.inputs[0] is not None and _is_float(node.inputs[0])
    )


def _is_float(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.FLOAT


def _array(value: ir.Value | None) -> Array:
    tensor = constant(value)
    assert tensor is not None
    return tensor.numpy()


def _named(value: ir.Value, name: str, like: ir.Value, kind: str) -> ir.Value:
    value.name, value.shape, value.type = name, like.shape, ir.TensorType(_TYPES[kind])
    return value
