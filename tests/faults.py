"""Seeded faults: a table of small wrong changes to graphs. Each change says which node it made wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]
# Changes the model in place and gives the names of the nodes any of which is the right answer.
Change = Callable[[onnx.ModelProto], set[str]]
Place = int | str


@dataclass(frozen=True)
class Fault:
    """One change to one subject."""

    subject: str
    what: str
    change: Change

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}"


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def find(proto: onnx.ModelProto, operator: str, place: Place) -> tuple[onnx.GraphProto, onnx.NodeProto]:
    """The node of this kind with this name or at this place, counted through all graphs, and the graph it is in."""
    found = [(graph, node) for graph in graphs(proto.graph) for node in graph.node if node.op_type == operator]
    if isinstance(place, int):
        return found[place]
    return next((graph, node) for graph, node in found if node.name.endswith(place))


def tensor(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    """The initializer or the value of the Constant node of this name."""
    for graph in graphs(proto.graph):
        for item in graph.initializer:
            if item.name == name:
                return item
        for node in graph.node:
            if node.op_type == "Constant" and node.output[0] == name:
                return node.attribute[0].t
    raise KeyError(name)


def change_weight(operator: str, index: Place, slot: int, edit: Callable[[Array], Array]) -> Change:
    """Edits the weight at an input of a node, for this node alone."""

    def change(proto: onnx.ModelProto) -> set[str]:
        graph, node = find(proto, operator, index)
        held = tensor(proto, node.input[slot])
        edited = edit(numpy_helper.to_array(held).copy())
        shared = sum(node.input[slot] in other.input for g in graphs(proto.graph) for other in g.node) > 1
        if shared:
            fresh = f"{node.input[slot]}#edited"
            graph.initializer.append(numpy_helper.from_array(edited, fresh))
            node.input[slot] = fresh
        else:
            held.CopyFrom(numpy_helper.from_array(edited, held.name))
        return {node.name}

    return change


def largest(by: float) -> Callable[[Array], Array]:
    """Scales the largest value."""

    def edit(array: Array) -> Array:
        array[np.unravel_index(np.abs(array).argmax(), array.shape)] *= 1 + by
        return array

    return edit


def stepped(by: float) -> Callable[[Array], Array]:
    """Adds to the first value."""

    def edit(array: Array) -> Array:
        array.reshape(-1)[0] += np.asarray(by, array.dtype)
        return array

    return edit


def attribute(operator: str, index: Place, name: str, value: Any) -> Change:
    def change(proto: onnx.ModelProto) -> set[str]:
        _, node = find(proto, operator, index)
        kept = [item for item in node.attribute if item.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
        return {node.name}

    return change


def operator(old: str, index: Place, new: str, **attributes: Any) -> Change:
    """Another operator in the same place."""

    def change(proto: onnx.ModelProto) -> set[str]:
        _, node = find(proto, old, index)
        node.op_type = new
        del node.attribute[:]
        node.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in attributes.items())
        return {node.name}

    return change


def without(op_type: str, index: Place, slot: int = 0) -> Change:
    """Takes the node out: those that read its output read its input. Right is any of these, or what now makes the output."""

    def change(proto: onnx.ModelProto) -> set[str]:
        graph, node = find(proto, op_type, index)
        source, target = node.input[slot], node.output[0]
        graph.node.remove(node)
        guilty = set()
        for other in graph.node:
            if target in other.input:
                other.input[:] = [source if name == target else name for name in other.input]
                guilty.add(other.name)
        if target in [value.name for value in graph.output]:
            maker = next(other for other in graph.node if source in other.output)
            maker.output[:] = [target if name == source else name for name in maker.output]
            for other in graph.node:
                other.input[:] = [target if name == source else name for name in other.input]
            guilty.add(maker.name)
        return guilty

    return change


def inputs(op_type: str, index: Place, edit: Callable[[list[str]], list[str]]) -> Change:
    """Reads other tensors, or the same in another order, or fewer."""

    def change(proto: onnx.ModelProto) -> set[str]:
        _, node = find(proto, op_type, index)
        edited = edit(list(node.input))
        del node.input[:]
        node.input.extend(edited)
        return {node.name}

    return change


def ordered(*positions: int) -> Callable[[list[str]], list[str]]:
    return lambda names: [names[position] for position in positions]


def after(op_type: str, index: Place, new: str, **attributes: Any) -> Change:
    """A node too many behind the output of another."""

    def change(proto: onnx.ModelProto) -> set[str]:
        graph, node = find(proto, op_type, index)
        place = list(graph.node).index(node)
        inner, extra = f"{node.output[0]}#before", f"{new} too many"
        made = onnx.helper.make_node(new, [inner], [node.output[0]], name=extra, **attributes)
        node.output[0] = inner
        graph.node.insert(place + 1, made)
        return {extra}

    return change


def zeroed(channel: int) -> Callable[[Array], Array]:
    def edit(array: Array) -> Array:
        array[channel] = 0
        return array

    return edit


def rolled(axis: int) -> Callable[[Array], Array]:
    return lambda array: np.roll(array, 1, axis)


def added(value: float) -> Callable[[Array], Array]:
    return lambda array: (array + np.asarray(value, array.dtype)).astype(array.dtype)


def scaled(factor: float) -> Callable[[Array], Array]:
    return lambda array: (array * factor).astype(array.dtype)


def one_sided(pads: Array) -> Array:
    """Pads of one on every side of two axes, moved to one end of the first."""
    pads[[2, 6]] = 2, 0
    return pads


def swapped(array: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(array, -1, -2))


# What, on which subject, how. Grouped by the kind of fault.
_ROWS: tuple[tuple[str, str, Change], ...] = (
    # a weight
    ("faces-p", "a weight of the first convolution off by 1 %", change_weight("Conv", 0, 1, largest(0.01))),
    ("faces-o", "a weight deep inside off by 1 %", change_weight("Conv", 3, 1, largest(0.01))),
    ("faces-r", "a dense weight off by 1 %", change_weight("Gemm", 0, 1, largest(0.01))),
    ("faces-r", "one channel zeroed", change_weight("Conv", 1, 1, zeroed(3))),
    ("faces-o", "channels rolled by one", change_weight("Conv", 2, 1, rolled(0))),
    ("faces-o", "a kernel turned over", change_weight("Conv", 1, 1, swapped)),
    ("faces-p", "slopes of a PRelu rolled by one", change_weight("PRelu", 1, 1, rolled(0))),
    ("reader-cls", "a depthwise weight off by 10 %", change_weight("Conv", 8, 1, largest(0.1))),
    ("reader-rec", "an attention weight off by 30 %", change_weight("MatMul", 0, 1, largest(0.3))),
    ("reader-det", "one channel of a deep convolution zeroed", change_weight("Conv", 30, 1, zeroed(1))),
    ("words", "an embedding shifted by one row", change_weight("Cast", 0, 0, rolled(0))),
    ("words", "a quantised weight off by ten steps", change_weight("Cast", 5, 0, stepped(10))),
    ("files", "a dense weight off by 5 %", change_weight("MatMul", 1, 1, largest(0.05))),
    ("voice", "a weight inside the taken branch off by 1 %", change_weight("Conv", -1, 1, largest(0.01))),
    ("voice-sequence", "gates of an LSTM rolled by one", change_weight("LSTM", 0, 1, rolled(1))),
    ("voice-sequence", "recurrent weights off by 1 %", change_weight("LSTM", 0, 2, scaled(1.01))),
    ("pitch", "a weight of the second stage off by 1 %", change_weight("Conv", -3, 1, largest(0.01))),
    ("layout", "a weight in the middle off by 10 %", change_weight("Conv", 50, 1, largest(0.1))),
    ("encoder", "a square weight transposed", change_weight("MatMul", 1, 1, swapped)),
    ("encoder", "the output projection transposed", change_weight("MatMul", 5, 1, swapped)),
    # a bias, a scale, a statistic
    ("faces-o", "a bias dropped", inputs("Conv", 2, lambda names: names[:2])),
    ("voice-sequence", "a bias dropped", inputs("Conv", 3, lambda names: names[:2])),
    ("faces-r", "a dense bias off by 0.01", change_weight("Gemm", 1, 2, stepped(0.01))),
    ("reader-cls", "a running mean off by 0.01", change_weight("BatchNormalization", 4, 3, added(0.01))),
    ("reader-cls", "a running variance off by 1 %", change_weight("BatchNormalization", 9, 4, scaled(1.01))),
    ("reader-rec", "mean and variance of a normalisation exchanged", inputs("BatchNormalization", 1, ordered(0, 1, 2, 4, 3))),
    ("convnet", "scale and offset of a normalisation exchanged", inputs("BatchNormalization", 0, ordered(0, 2, 1, 3, 4))),
    ("words", "the gain of a layer norm off by 1 %", change_weight("LayerNormalization", 5, 1, scaled(1.01))),
    ("words", "a layer norm without its offset", inputs("LayerNormalization", 2, lambda names: names[:2])),
    # a constant
    ("reader-cls", "epsilon 1e-3 for 1e-5", attribute("BatchNormalization", 12, "epsilon", 1e-3)),
    ("convnet", "epsilon 1e-2 for 1e-3", attribute("BatchNormalization", 0, "epsilon", 1e-2)),
    ("words", "epsilon 1e-3 for 1e-12", attribute("LayerNormalization", 3, "epsilon", 1e-3)),
    ("reader-rec", "epsilon of a written-out layer norm", change_weight("Add", "p2o.Add.262", 1, scaled(1000))),
    ("reader-cls", "the shift of a hard swish 2 for 3", change_weight("Add", 4, 1, added(-1))),
    ("reader-cls", "the upper bound of a Clip 5 for 6", change_weight("Clip", 5, 2, added(-1))),
    ("convnet", "the upper bound of a Clip 0.5 for 6", change_weight("Clip", 0, 2, added(-5.5))),
    ("reader-rec", "the scale of attention off by 10 %", change_weight("Mul", "p2o.Mul.189", 1, scaled(1.1))),
    ("encoder", "the scale of attention left out", without("Mul", 0)),
    ("reader-cls", "alpha of a hard sigmoid 1/6 for 0.2", attribute("HardSigmoid", 3, "alpha", 1 / 6)),
    ("convnet", "the slope of a LeakyRelu 0.01 for 0.1", attribute("LeakyRelu", 0, "alpha", 0.01)),
    ("encoder", "the root of two off by 1 %", change_weight("Div", 0, 1, scaled(1.01))),
    ("files", "the coefficient of a tanh GELU 0.05 for 0.0447", change_weight("Mul", 0, 0, scaled(0.05 / 0.044715))),
    ("voice-sequence", "a power 3 for 2", change_weight("Pow", 0, 1, added(1))),
    # an axis, a stride, a pad
    ("faces-p", "softmax over another axis", attribute("Softmax", 0, "axis", 2)),
    ("reader-rec", "softmax over another axis", attribute("Softmax", 0, "axis", 2)),
    ("encoder", "softmax over another axis", attribute("Softmax", 0, "axis", -2)),
    ("convnet", "log-softmax over the batch", attribute("LogSoftmax", 0, "axis", 0)),
    ("encoder", "heads and time exchanged behind attention", attribute("Transpose", 3, "perm", [0, 1, 2, 3])),
    ("faces-o", "height and width not exchanged before the flatten", attribute("Transpose", 0, "perm", [0, 1, 2, 3])),
    ("faces-o", "a pool that rounds its size down", attribute("MaxPool", 0, "ceil_mode", 0)),
    ("convnet", "a pad moved to one side", change_weight("Pad", 0, 1, one_sided)),
    ("convnet", "the pad of a convolution moved to one side", attribute("Conv", 0, "pads", [2, 1, 0, 1])),
    ("convnet", "a pad that reflects", attribute("Pad", 0, "mode", "reflect")),
    ("reader-cls", "dilation 2 with the pad to match", lambda proto: _dilate(proto, 10)),
    ("convnet", "a resize aligned to its corners", attribute("Resize", 0, "coordinate_transformation_mode", "align_corners")),
    ("reader-det", "a resize aligned to its corners", attribute("Resize", 3, "coordinate_transformation_mode", "align_corners")),
    ("convnet", "the halves of a split exchanged", lambda proto: _exchange_outputs(proto, "Split", 0)),
    ("convnet", "a concat in another order", inputs("Concat", 0, ordered(1, 0))),
    ("files", "the mean of a layer norm through one more", change_weight("Mul", "LayerNorm_0/truediv", 1, scaled(512 / 513))),
    # an operator
    ("voice-openvino", "a Sigmoid dropped", without("Sigmoid", 0)),
    ("reader-rec", "a Sigmoid dropped inside a swish", without("Sigmoid", 2)),
    ("faces-r", "a Softmax dropped", without("Softmax", 0)),
    ("voice-sequence", "a Relu dropped", without("Relu", 1)),
    ("faces-o", "a Relu for a PRelu", lambda proto: _relu(proto, 1)),
    ("convnet", "a maximum for an average pool", operator("AveragePool", 0, "MaxPool", kernel_shape=[2, 2], strides=[2, 2])),
    ("files", "a sigmoid for a tanh", operator("Tanh", 0, "Sigmoid")),
    ("reader-cls", "a Mul for an Add at the end of a block", operator("Add", 36, "Mul")),
    ("encoder", "a Sub for the residual Add", operator("Add", 0, "Sub")),
    ("files", "a subtraction the wrong way round", inputs("Sub", 1, ordered(1, 0))),
    ("files", "a minimum for a maximum", operator("Max", 2, "Min")),
    ("reader-rec", "a residual of the wrong block", inputs("Add", "p2o.Add.270", lambda names: ["p2o.Add.251", names[1]])),
    ("files", "a value truncated to an integer", after("MatMul", 1, "Floor")),
    ("encoder", "a Relu too many", after("MatMul", 6, "Relu")),
    ("voice-half", "a square root dropped", without("Sqrt", 0)),
)  # fmt: skip


def _dilate(proto: onnx.ModelProto, index: Place) -> set[str]:
    _, node = find(proto, "Conv", index)
    values = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    side = values["kernel_shape"][0] - 1
    attribute("Conv", index, "dilations", [2, 2])(proto)
    return attribute("Conv", index, "pads", [side] * 4)(proto)


def _exchange_outputs(proto: onnx.ModelProto, op_type: str, index: Place) -> set[str]:
    """A node that hands out the right tensors under the wrong names: its readers are as wrong as it is."""
    graph, node = find(proto, op_type, index)
    node.output[:] = list(node.output)[::-1]
    return {node.name, *(other.name for other in graph.node if set(other.input) & set(node.output))}


def _relu(proto: onnx.ModelProto, index: Place) -> set[str]:
    _, node = find(proto, "PRelu", index)
    node.op_type = "Relu"
    del node.input[1:]
    return {node.name}


FAULTS = tuple(Fault(*row) for row in _ROWS)
