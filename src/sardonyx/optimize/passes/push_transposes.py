"""Replaces Transpose, elementwise operators, and the Transpose that undoes the first with the elementwise operators alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, array_of, attribute, bypass, dims, is_standard, weight
from sardonyx.optimize.passes._rewrite import Rewrite
from sardonyx.signature import Array

UNARY = frozenset((
    "Abs", "Cast", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
    "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus",
    "Softsign", "Sqrt", "Tanh", "ThresholdedRelu",
))  # fmt: skip
BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu"))


class PushTransposes(Rewrite):
    """Replaces Transpose, elementwise operators, and the Transpose that undoes the first with the operators alone."""

    order = 45
    operators = ("Transpose",)

    def rewrite(self, node: ir.Node) -> str | None:
        order = _permutation(node)
        chain, end = _chain(node)
        if end is None or not chain or order is None:
            return None
        back = _permutation(end)
        if back is None or [order[axis] for axis in back] != list(range(len(order))):
            raise Declined("the Transpose behind does not undo it")
        if node.outputs[0].is_graph_output() or len(node.outputs[0].uses()) > 1:
            raise Declined("other nodes take what it gives")
        changes = [change for step in chain for change in _turned(step, back)]
        for change in changes:
            change()
        source = node.inputs[0]
        for step in chain:
            place = next(index for index, value in enumerate(step.inputs) if _flows(value, node, chain))
            if step is chain[0]:
                step.replace_input_with(place, source)
            step.outputs[0].shape = source.shape
        bypass(end, chain[-1].outputs[0])
        owner = node.graph
        if owner is not None and not node.outputs[0].uses():
            owner.remove(node, safe=True)
        return f"cancelled with another Transpose, past {', '.join(step.op_type for step in chain)}"


def _flows(value: ir.Value | None, first: ir.Node, chain: list[ir.Node]) -> bool:
    maker = value.producer() if value is not None else None
    return maker is first or maker in chain


def _chain(node: ir.Node) -> tuple[list[ir.Node], ir.Node | None]:
    """The elementwise nodes behind a Transpose, one after the other, and the Transpose at their end."""
    chain: list[ir.Node] = []
    value = node.outputs[0]
    while len(uses := value.uses()) == 1 and (chain == [] or not value.is_graph_output()):
        step = uses[0].node
        if step.graph is not node.graph:
            return chain, None
        if is_standard(step, "Transpose"):
            return chain, step
        if not is_standard(step, *UNARY, *BINARY) or (step.op_type in BINARY and len(step.inputs) != 2):
            return chain, None
        if step.op_type in BINARY and all(array_of(other) is None for other in step.inputs if other is not value):
            return chain, None
        chain.append(step)
        value = step.outputs[0]
    return chain, None


def _turned(step: ir.Node, back: list[int]) -> list[Callable[[], None]]:
    """What makes a step's constants fit its unturned input, all checked before any is done."""
    if step.op_type not in BINARY:
        return []
    changes: list[Callable[[], None]] = []
    for place, value in enumerate(step.inputs):
        constant = array_of(value)
        if constant is None or constant.size == 1:
            if constant is not None and constant.ndim > len(back):
                raise Declined("its constant has more dimensions than the tensor")
            continue
        if constant.ndim > len(back):
            raise Declined("its constant has more dimensions than the tensor")
        whole = constant.reshape([1] * (len(back) - constant.ndim) + list(constant.shape))
        turned = np.transpose(whole, back)

        def change(place: int = place, value: ir.Value = value, turned: Array = turned) -> None:
            step.replace_input_with(place, weight(step, f"{value.name}_turned", turned, dtype=value.dtype))

        changes.append(change)
    return changes


def _permutation(node: ir.Node) -> list[int] | None:
    found = attribute(node, "perm")
    if found is not None:
        return list(found)
    shape = dims(node.inputs[0])
    return None if shape is None else list(range(len(shape)))[::-1]
