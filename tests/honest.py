"""Honest rewrites: a table of changes to graphs that change nothing but rounding. A comparison must not call them wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import numpy_helper
from onnx_ir.passes import common

# Gives the rewritten model, or None where there is nothing to rewrite.
Rewrite = Callable[[onnx.ModelProto], onnx.ModelProto | None]


def _passes(*passes: type[Any]) -> Rewrite:
    def rewrite(proto: onnx.ModelProto) -> onnx.ModelProto | None:
        model = ir.from_proto(proto)
        try:
            changed = [made()(model).modified for made in passes]
        except ValueError:  # the identity pass gives up where a branch hands on a value of the outer graph
            return None
        return ir.to_proto(model) if any(changed) else None

    return rewrite


def _onnxscript(proto: onnx.ModelProto) -> onnx.ModelProto:
    from onnxscript import optimizer

    model = ir.from_proto(proto)
    optimizer.optimize(model)
    return ir.to_proto(model)


def _upgraded(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    from onnxscript import version_converter

    model = ir.from_proto(proto)
    if model.opset_imports[""] < 18:  # the converter starts there
        raised = onnx.version_converter.convert_version(proto, 18)
        model = ir.from_proto(raised)
    version_converter.convert_version(model, 22)
    return ir.to_proto(model)


def _by_runtime(level: ort.GraphOptimizationLevel) -> Rewrite:
    def rewrite(proto: onnx.ModelProto) -> onnx.ModelProto:
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        with tempfile.TemporaryDirectory() as folder:
            options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
            ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return onnx.load(options.optimized_model_filepath)

    return rewrite


def _renamed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Every tensor but inputs and outputs gets a number, counted from the end; nodes lose their names."""
    kept = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    names = [name for node in proto.graph.node for name in node.output] + [
        item.name for item in proto.graph.initializer
    ]
    fresh = {name: str(len(names) - index) for index, name in enumerate(names) if name and name not in kept}
    _rename(proto.graph, fresh)
    del proto.graph.value_info[:]
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    return proto


def _rename(graph: onnx.GraphProto, fresh: dict[str, str]) -> None:
    for item in graph.initializer:
        item.name = fresh.get(item.name, item.name)
    for node in graph.node:
        node.input[:] = [fresh.get(name, name) for name in node.input]
        node.output[:] = [fresh.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, fresh)
                for value in attribute.g.output:
                    value.name = fresh.get(value.name, value.name)


def _reordered(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Another topological order: whatever is ready last goes first."""
    made = {value.name for value in proto.graph.input} | {item.name for item in proto.graph.initializer} | {""}
    waiting, ordered = list(proto.graph.node), []
    while waiting:
        node = next(node for node in reversed(waiting) if made.issuperset(_reads(node)))
        waiting.remove(node)
        ordered.append(node)
        made.update(node.output)
    del proto.graph.node[:]
    proto.graph.node.extend(ordered)
    return proto


def _reads(node: onnx.NodeProto) -> set[str]:
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            inner = {name for inside in attribute.g.node for name in _reads(inside)} | {
                v.name for v in attribute.g.output
            }
            own = {name for inside in attribute.g.node for name in inside.output}
            own |= {item.name for item in (*attribute.g.initializer, *attribute.g.input)}
            found |= inner - own
    return found


def _weights_as_constants(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    if not proto.graph.initializer:
        return None
    made = [onnx.helper.make_node("Constant", [], [item.name], value=item) for item in proto.graph.initializer]
    nodes = [*made, *proto.graph.node]
    named = {item.name for item in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in named]
    del proto.graph.initializer[:], proto.graph.node[:], proto.graph.input[:]
    proto.graph.node.extend(nodes)
    proto.graph.input.extend(inputs)
    return proto


def _each(*operators: str) -> Callable[[Callable[..., list[onnx.NodeProto] | None]], Rewrite]:
    """A rewrite from a function that gives new nodes for one, or None to leave it."""

    def made(function: Callable[..., list[onnx.NodeProto] | None]) -> Rewrite:
        def rewrite(proto: onnx.ModelProto) -> onnx.ModelProto | None:
            nodes, changed = [], False
            for node in proto.graph.node:
                fresh = function(proto, node) if node.op_type in operators else None
                changed = changed or fresh is not None
                nodes += [node] if fresh is None else fresh
            del proto.graph.node[:]
            proto.graph.node.extend(nodes)
            return proto if changed else None

        return rewrite

    return made


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def _weight(proto: onnx.ModelProto, name: str) -> np.ndarray[Any, Any] | None:
    for item in proto.graph.initializer:
        if item.name == name:
            return numpy_helper.to_array(item)
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.output[0] == name and node.attribute[0].name == "value":
            return numpy_helper.to_array(node.attribute[0].t)
    return None


def _store(proto: onnx.ModelProto, name: str, value: np.ndarray[Any, Any]) -> str:
    proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
    return name


@_each("Gemm")
def _gemm_as_matmul(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    given = _attributes(node)
    weight = _weight(proto, node.input[1])
    if weight is None or given.get("transA") or given.get("alpha", 1.0) != 1 or given.get("beta", 1.0) != 1:
        return None
    turned = _store(proto, f"{node.output[0]}/turned", weight.T if given.get("transB") else weight)
    product = f"{node.output[0]}/product"
    return [
        onnx.helper.make_node("MatMul", [node.input[0], turned], [product]),
        onnx.helper.make_node("Add", [product, node.input[2]], [node.output[0]]),
    ]


@_each("Conv")
def _bias_apart(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    bias = _weight(proto, node.input[2]) if len(node.input) > 2 else None
    rank = len(_attributes(node).get("kernel_shape", ()))
    if bias is None or not rank:
        return None
    shaped = _store(proto, f"{node.output[0]}/bias", bias.reshape(-1, *[1] * rank))
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    del bare.input[2:]
    bare.output[0] = f"{node.output[0]}/bare"
    return [bare, onnx.helper.make_node("Add", [bare.output[0], shaped], [node.output[0]])]


@_each("Conv")
def _weights_scaled(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The weight times three, and the result through three: the same, rounded elsewhere."""
    weight = _weight(proto, node.input[1])
    if weight is None or len(node.input) > 2:
        return None
    three = np.float32(3)
    scaled = onnx.NodeProto()
    scaled.CopyFrom(node)
    scaled.input[1] = _store(proto, f"{node.output[0]}/times three", weight * three)
    scaled.output[0] = f"{node.output[0]}/thrice"
    divisor = _store(proto, f"{node.output[0]}/three", np.array(three))
    return [scaled, onnx.helper.make_node("Div", [scaled.output[0], divisor], [node.output[0]])]


@_each("Sigmoid")
def _sigmoid_written_out(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    if any(node.output[0] == value.name for value in proto.graph.output):
        return None
    base = node.output[0]
    one = _store(proto, f"{base}/one", np.array(1, np.float32))
    return [
        onnx.helper.make_node("Neg", [node.input[0]], [f"{base}/minus"]),
        onnx.helper.make_node("Exp", [f"{base}/minus"], [f"{base}/exp"]),
        onnx.helper.make_node("Add", [f"{base}/exp", one], [f"{base}/sum"]),
        onnx.helper.make_node("Div", [one, f"{base}/sum"], [base]),
    ]


@_each("Relu")
def _relu_as_max(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    zero = _store(proto, f"{node.output[0]}/zero", np.array(0, np.float32))
    return [onnx.helper.make_node("Max", [node.input[0], zero], list(node.output))]


@_each("Div")
def _division_as_product(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    divisor = _weight(proto, node.input[1])
    if divisor is None or divisor.dtype != np.float32:
        return None
    inverse = _store(proto, f"{node.output[0]}/inverse", (1 / divisor).astype(np.float32))
    return [onnx.helper.make_node("Mul", [node.input[0], inverse], list(node.output))]


@_each("Relu", "Conv", "MatMul", "Add")
def _identities(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    del proto
    fresh = onnx.NodeProto()
    fresh.CopyFrom(node)
    fresh.output[0] = f"{node.output[0]}/first"
    return [fresh, onnx.helper.make_node("Identity", [fresh.output[0]], [node.output[0]])]


@_each("Conv")
def _channels_reordered(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The input's channels backwards, and the weight's too: the same products, added up in another order."""
    weight = _weight(proto, node.input[1])
    if weight is None or _attributes(node).get("group", 1) != 1:
        return None
    order = _store(proto, f"{node.output[0]}/order", np.arange(weight.shape[1])[::-1].astype(np.int64))
    turned = onnx.NodeProto()
    turned.CopyFrom(node)
    turned.input[0] = f"{node.output[0]}/turned"
    turned.input[1] = _store(proto, f"{node.output[0]}/weight", weight[:, ::-1])
    return [onnx.helper.make_node("Gather", [node.input[0], order], [turned.input[0]], axis=1), turned]


@_each("MatMul")
def _product_in_halves(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    weight = _weight(proto, node.input[1])
    if weight is None or weight.ndim != 2 or weight.shape[0] < 2:
        return None
    base, cut = node.output[0], weight.shape[0] // 2
    axis, middle = _store(proto, f"{base}/axis", np.array([-1])), _store(proto, f"{base}/middle", np.array([cut]))
    start, end = (
        _store(proto, f"{base}/start", np.array([0])),
        _store(proto, f"{base}/end", np.array([weight.shape[0]])),
    )
    first, second = _store(proto, f"{base}/w1", weight[:cut]), _store(proto, f"{base}/w2", weight[cut:])
    return [
        onnx.helper.make_node("Slice", [node.input[0], start, middle, axis], [f"{base}/x1"]),
        onnx.helper.make_node("Slice", [node.input[0], middle, end, axis], [f"{base}/x2"]),
        onnx.helper.make_node("MatMul", [f"{base}/x1", first], [f"{base}/y1"]),
        onnx.helper.make_node("MatMul", [f"{base}/x2", second], [f"{base}/y2"]),
        onnx.helper.make_node("Add", [f"{base}/y1", f"{base}/y2"], [base]),
    ]


@_each("Softmax")
def _softmax_written_out(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    axis, opset = _attributes(node).get("axis", -1), max(item.version for item in proto.opset_import if not item.domain)
    base = node.output[0]
    if opset < 13:  # one axis only from there on; and sums take their axes as an input
        return None
    axes = _store(proto, f"{base}/axes", np.array([axis]))
    return [
        onnx.helper.make_node("Exp", [node.input[0]], [f"{base}/exp"]),
        onnx.helper.make_node("ReduceSum", [f"{base}/exp", axes], [f"{base}/sum"]),
        onnx.helper.make_node("Div", [f"{base}/exp", f"{base}/sum"], [base]),
    ]


@_each("BatchNormalization")
def _norm_as_line(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Scale and offset of the line that a normalisation with fixed statistics is."""
    values = [_weight(proto, name) for name in node.input[1:5]]
    if any(value is None for value in values):
        return None
    scale, offset, mean, variance = (np.asarray(value, np.float64).reshape(-1, 1, 1) for value in values)
    slope = scale / np.sqrt(variance + _attributes(node).get("epsilon", 1e-5))
    base = node.output[0]
    factor = _store(proto, f"{base}/slope", slope.astype(np.float32))
    shift = _store(proto, f"{base}/shift", (offset - mean * slope).astype(np.float32))
    return [
        onnx.helper.make_node("Mul", [node.input[0], factor], [f"{base}/scaled"]),
        onnx.helper.make_node("Add", [f"{base}/scaled", shift], [base]),
    ]


@_each("LayerNormalization")
def _layer_norm_written_out(proto: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    base, opset = node.output[0], max(item.version for item in proto.opset_import if not item.domain)
    if len(node.input) < 3 or opset >= 18:
        return None
    epsilon = _store(proto, f"{base}/epsilon", np.array(_attributes(node).get("epsilon", 1e-5), np.float32))
    make = onnx.helper.make_node
    return [
        make("ReduceMean", [node.input[0]], [f"{base}/mean"], axes=[-1]),
        make("Sub", [node.input[0], f"{base}/mean"], [f"{base}/centred"]),
        make("Mul", [f"{base}/centred", f"{base}/centred"], [f"{base}/squared"]),
        make("ReduceMean", [f"{base}/squared"], [f"{base}/variance"], axes=[-1]),
        make("Add", [f"{base}/variance", epsilon], [f"{base}/safe"]),
        make("Sqrt", [f"{base}/safe"], [f"{base}/deviation"]),
        make("Div", [f"{base}/centred", f"{base}/deviation"], [f"{base}/normal"]),
        make("Mul", [f"{base}/normal", node.input[1]], [f"{base}/scaled"]),
        make("Add", [f"{base}/scaled", node.input[2]], [base]),
    ]


def _norm_folded(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """BatchNormalization behind a Conv goes into its weights."""
    readers: dict[str, int] = {}
    for node in proto.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    makers = {node.output[0]: node for node in proto.graph.node if node.op_type == "Conv"}
    folded = 0
    for norm in [node for node in proto.graph.node if node.op_type == "BatchNormalization"]:
        conv = makers.get(norm.input[0])
        values = [_weight(proto, name) for name in norm.input[1:5]]
        weight = _weight(proto, conv.input[1]) if conv is not None else None
        if conv is None or weight is None or readers[norm.input[0]] != 1 or any(value is None for value in values):
            continue
        scale, offset, mean, variance = (np.asarray(value, np.float64) for value in values)
        factor = scale / np.sqrt(variance + _attributes(norm).get("epsilon", 1e-5))
        bias = _weight(proto, conv.input[2]) if len(conv.input) > 2 else 0.0
        if bias is None:
            continue
        folded_weight = (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(np.float32)
        names = [_store(proto, f"{norm.output[0]}/weight", folded_weight)]
        names.append(
            _store(proto, f"{norm.output[0]}/bias", ((np.asarray(bias) - mean) * factor + offset).astype(np.float32))
        )
        source = conv.input[0]
        del conv.input[:]
        conv.input.extend([source, *names])
        conv.output[0] = norm.output[0]
        proto.graph.node.remove(norm)
        folded += 1
    return proto if folded else None


_LEVELS = ort.GraphOptimizationLevel
REWRITES: dict[str, Rewrite] = {
    "as it is": lambda proto: proto,
    "onnxscript's optimizer": _onnxscript,
    "common subexpressions shared": _passes(common.CommonSubexpressionEliminationPass),
    "constants lifted": _passes(common.LiftConstantsToInitializersPass),
    "identities removed": _passes(common.IdentityEliminationPass, common.RemoveUnusedNodesPass),
    "identities added": _identities,
    "a newer opset": _upgraded,
    "onnxruntime, basic": _by_runtime(_LEVELS.ORT_ENABLE_BASIC),
    "onnxruntime, extended": _by_runtime(_LEVELS.ORT_ENABLE_EXTENDED),
    "onnxruntime, all": _by_runtime(_LEVELS.ORT_ENABLE_ALL),
    "tensors renamed": _renamed,
    "nodes in another order": _reordered,
    "weights as constants": _weights_as_constants,
    "Gemm as MatMul and Add": _gemm_as_matmul,
    "normalisation folded": _norm_folded,
    "bias apart": _bias_apart,
    "weights scaled and back": _weights_scaled,
    "sigmoid written out": _sigmoid_written_out,
    "Relu as Max": _relu_as_max,
    "division as product": _division_as_product,
    "channels in another order": _channels_reordered,
    "products in halves": _product_in_halves,
    "softmax written out": _softmax_written_out,
    "layer norm written out": _layer_norm_written_out,
    "normalisation as a line": _norm_as_line,
}
