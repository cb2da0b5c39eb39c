"""Dimensions that look as if the exporter had silently fixed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx

from sardonyx.check._places import domain_of
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "baked-dimension": "The first dimension of the inputs is dynamic, but a Reshape inside fixes it to a constant.",
    "fixed-output": "The inputs have a dynamic first dimension, and an output is fixed to one example.",
    "mixed-batch": "The first dimension is dynamic in one input, and another is fixed to one example.",
    "fixed-batch": "Every input takes one example at a time.",
}
Shape = Sequence[int | None]
_EXPORT_AGAIN = "export the model again with that dimension dynamic, and try it with a batch of 2"


def findings(subject: Subject) -> Iterator[Finding]:
    """Signs, not proofs, that the example used for the export is baked into the model."""
    graph = subject.examination.typed.graph
    filled = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: shape for value in graph.input if value.name not in filled and (shape := shape_of(value))}
    batched = [name for name, shape in inputs.items() if shape[0] is None]
    if batched:
        yield from _baked(graph, batched[0])
        outputs = {value.name: shape for value in graph.output if (shape := shape_of(value))}
        yield from _fixed_beside(inputs, batched[0], "inputs", "mixed-batch")
        yield from _fixed_beside(outputs, batched[0], "outputs", "fixed-output")
    elif inputs and all(shape[0] == 1 and len(shape) > 1 for shape in inputs.values()):
        message = f"takes a batch of 1 only: {', '.join(f'{n}{_shown(s)}' for n, s in inputs.items())}"
        yield Finding(
            "info", "fixed-batch", "inputs", message, "if batches are wanted, make the first dimension dynamic"
        )


def shape_of(value: onnx.ValueInfoProto) -> Shape | None:
    """The sizes of a tensor's dimensions, None for a dynamic one; None where even the rank is not known."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]


def _baked(graph: onnx.GraphProto, name: str) -> Iterator[Finding]:
    """A Reshape whose first target size is a constant, of a value whose first dimension is dynamic."""
    shapes = {value.name: shape_of(value) for value in (*graph.input, *graph.value_info, *graph.output)}
    constants = _small_constants(graph)
    found = []
    for node in graph.node:
        if node.op_type != "Reshape" or domain_of(node.domain) or len(node.input) < 2:
            continue
        before, target = shapes.get(node.input[0]), constants.get(node.input[1])
        if before and target and before[0] is None and _swallows(before, target):
            found.append((node, before, target))
    if found:
        node, before, target = found[0]
        more = f", and so do {len(found) - 1} more" if len(found) > 1 else ""
        message = (
            f"reshapes {_shown(before)} to {list(target)}, while the first dimension of input '{name}' is dynamic{more}"
        )
        yield Finding(
            "warning", "baked-dimension", f"node '{node.name or node.output[0]}' (Reshape)", message, _EXPORT_AGAIN
        )


def _swallows(before: Shape, target: Sequence[int]) -> bool:
    """Whether only one size of the dynamic first dimension can give the target.

    [batch, 256, 6, 6] to [1, 9216] or [1, -1] does: another batch breaks the one and is folded into an example by the
    other. [batch, 256, 6, 6] to [-1, 9216] or [0, -1] does not.
    """
    if not target or target[0] <= 0 or any(size is None for size in before[1:]):
        return False
    return 0 not in target[1:]


def _fixed_beside(values: dict[str, Shape], batched: str, kind: str, code: str) -> Iterator[Finding]:
    """Inputs or outputs of fixed shape, for one example, beside an input whose first dimension is dynamic."""
    fixed = {name: shape for name, shape in values.items() if len(shape) > 1 and shape[0] == 1 and None not in shape}
    if fixed:
        listed = ", ".join(f"{name}{_shown(shape)}" for name, shape in fixed.items())
        message = (
            f"{listed} {'is' if len(fixed) == 1 else 'are'} fixed, while the first dimension of '{batched}' is dynamic"
        )
        yield Finding("info", code, kind, message, _EXPORT_AGAIN)


def _small_constants(graph: onnx.GraphProto) -> dict[str, list[int]]:
    """The values of one-dimensional int64 constants, which is what shapes are."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            tensors.update((node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value")
    return {name: values for name, tensor in tensors.items() if (values := _integers(tensor)) is not None}


def _integers(tensor: onnx.TensorProto) -> list[int] | None:
    if tensor.data_type != onnx.TensorProto.INT64 or len(tensor.dims) != 1 or tensor.data_location:
        return None
    if tensor.raw_data:
        return [int(n) for n in np.frombuffer(tensor.raw_data[: len(tensor.raw_data) // 8 * 8], "<i8")]
    return list(tensor.int64_data)


def _shown(shape: Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
