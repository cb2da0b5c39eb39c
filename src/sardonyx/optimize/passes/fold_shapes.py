"""Replaces sizes computed from a Shape, and the targets of Reshapes made of them, with constants where shapes are known."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, array_of, attribute, bypass, dims, is_standard, replace, weight
from sardonyx.optimize.passes._rewrite import Rewrite
from sardonyx.signature import Array


class FoldShapes(Rewrite):
    """Replaces sizes computed from a Shape, and the targets of Reshapes made of them, with constants where shapes are known."""

    order = 25
    operators = ("Gather", "Reshape", "Shape", "Size")

    def rewrite(self, node: ir.Node) -> str | None:
        if node.op_type == "Reshape":
            return _fixed_target(node)
        if node.op_type == "Gather":
            return _gathered(node)
        return _whole(node)


def _whole(node: ir.Node) -> str | None:
    shape = dims(node.inputs[0])
    if node.op_type == "Shape" and shape is not None:
        shape = shape[slice(attribute(node, "start", 0), attribute(node, "end"))]
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        raise Declined("not every size of its input is known")
    values = np.array(shape, np.int64)
    _set(node, values if node.op_type == "Shape" else np.array(values.prod(), np.int64))
    return f"is always {list(shape)}"


def _gathered(node: ir.Node) -> str | None:
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    index = array_of(node.inputs[1])
    if not is_standard(source, "Shape") or index is None or source.attributes:
        return None
    shape = dims(source.inputs[0])
    if shape is None or np.any(index >= len(shape)) or np.any(index < -len(shape)):
        raise Declined("the rank of the tensor is unknown")
    chosen = [shape[int(place)] for place in index.reshape(-1)]
    if not all(isinstance(dim, int) for dim in chosen):
        raise Declined("the size is known only at run time")
    _set(node, np.array(chosen, np.int64).reshape(index.shape))
    return f"is always {chosen}"


def _fixed_target(node: ir.Node) -> str | None:
    if array_of(node.inputs[1]) is not None:
        return None
    was, becomes = dims(node.inputs[0]), dims(node.outputs[0])
    if becomes is None:
        raise Declined("the rank of its answer is unknown")
    target = [dim if isinstance(dim, int) else -1 for dim in becomes]
    if target.count(-1) > 1 and was is not None:
        # A zero takes the size at the same place of the input, whatever it is.
        for place, dim in enumerate(becomes):
            if isinstance(dim, str) and place < len(was) and was[place] == dim:
                target[place] = 0
    if target.count(-1) > 1:
        raise Declined("more than one size of its answer is known only at run time")
    if 0 in becomes or attribute(node, "allowzero", 0):
        raise Declined("a size of zero means something else to a Reshape")
    shape = weight(node, f"{node.outputs[0].name}_shape", np.array(target, np.int64))
    replace(node, "Reshape", [node.inputs[0], shape])
    return f"always reshapes to {target}"


def _set(node: ir.Node, values: Array) -> None:
    if node.outputs[0].is_graph_output():
        raise Declined("its output is an output of the graph, which needs a node of its own")
    bypass(node, weight(node, node.outputs[0].name or "shape", values))
