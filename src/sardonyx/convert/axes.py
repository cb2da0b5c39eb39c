"""Axes counted from the front: onnxruntime gives a reduction over a negative axis of an empty tensor a wrong shape."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from sardonyx.model import Model

BY_ATTRIBUTE = ("ArgMax", "ArgMin")


def count_from_front(model: Model) -> None:
    """Replaces negative axes of reductions by the same axes counted from the front, where the rank is known."""
    found = [node for node in model.ir.graph.all_nodes() if _has_negative_axes(node)]
    ranks = _ranks(model, found)
    for node in found:
        value = node.inputs[0]
        rank = None if value is None else ranks.get(value.name)
        if rank:
            _count(node, rank)


def _has_negative_axes(node: ir.Node) -> bool:
    reduces = node.domain == "" and (node.op_type in BY_ATTRIBUTE or node.op_type.startswith("Reduce"))
    return reduces and any(axis < 0 for axis in _axes(node))


def _axes(node: ir.Node) -> list[int]:
    if node.op_type in BY_ATTRIBUTE:
        return [node.attributes.get_int("axis", 0)]
    known = ir.convenience.get_const_tensor(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
    if known is not None:
        return [int(axis) for axis in np.asarray(known.numpy()).reshape(-1)]
    return list(node.attributes.get_ints("axes", []))


def _ranks(model: Model, nodes: list[ir.Node]) -> dict[str | None, int]:
    """The ranks of what the nodes reduce, by name; inferred where the model does not say."""
    values = [node.inputs[0] for node in nodes if node.inputs[0] is not None]
    known = {value.name: len(value.shape) for value in values if value.shape is not None}
    if len(known) == len({value.name for value in values}):
        return known
    copy = model.ir.clone()
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(copy)
    made = (value for node in copy.graph.all_nodes() for value in node.outputs)
    return known | {value.name: len(value.shape) for value in made if value.shape is not None}


def _count(node: ir.Node, rank: int) -> None:
    axes = [axis % rank for axis in _axes(node)]
    if node.op_type in BY_ATTRIBUTE:
        node.attributes["axis"] = ir.AttrInt64("axis", axes[0])
    elif "axes" in node.attributes:
        node.attributes["axes"] = ir.AttrInt64s("axes", axes)
    elif node.graph is not None:  # the constant may have other readers
        constant = ir.node("Constant", [], {"value": ir.tensor(np.array(axes, np.int64))})
        node.graph.insert_before(node, constant)
        node.replace_input_with(1, constant.outputs[0])
