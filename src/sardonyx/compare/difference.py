"""What differs between two nodes that should be the same, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.compare.align import COMMUTATIVE, attribute_bytes, weight_digest
from sardonyx.compare.flow import Flow, Step


def explain(reference: Flow, candidate: Flow, step: Step, other: Step | None, pairs: Mapping[str, str]) -> str:
    """How a step of the candidate differs from the step of the reference that belongs to it; empty if it does not."""
    if other is None:
        return "the reference has no such node"
    if other.op_type != step.op_type or other.domain != step.domain:
        return f"{_kind(step)} where the reference has {_kind(other)}"
    if candidate.since(step) != reference.since(other):
        return ""  # two versions of one operator say the same in other words
    return "; ".join(
        [*_attributes(reference, candidate, step, other), *_inputs(reference, candidate, step, other, pairs)]
    )


def _attributes(reference: Flow, candidate: Flow, step: Step, other: Step) -> Iterator[str]:
    mine, theirs = attribute_bytes(step, candidate.opsets), attribute_bytes(other, reference.opsets)
    for name in sorted({*mine, *theirs}):
        if mine.get(name) != theirs.get(name):
            yield f"{name} is {_shown(mine.get(name))} and {_shown(theirs.get(name))} in the reference"


def _inputs(reference: Flow, candidate: Flow, step: Step, other: Step, pairs: Mapping[str, str]) -> Iterator[str]:
    if len(step.inputs) != len(other.inputs):
        yield f"it has {len(step.inputs)} inputs and {len(other.inputs)} in the reference"
        return
    inputs, expected = list(step.inputs), list(other.inputs)
    if step.op_type in COMMUTATIVE:
        wanted = {pairs.get(name, name) for name in inputs}
        if wanted == set(expected):
            expected = [pairs.get(name, name) for name in inputs]
    for position, (name, theirs) in enumerate(zip(inputs, expected, strict=True)):
        mine, original = candidate.weights.get(name), reference.weights.get(theirs)
        if mine is not None and original is not None:
            if weight_digest(mine) != weight_digest(original):
                yield f"its weight {name} differs {_how(mine, original)}"
        elif bool(name) != bool(theirs):
            yield f"its input {position} is {name or 'missing'} and {theirs or 'missing'} in the reference"
        elif (mine is None) != (original is None):
            kinds = ("computed", "a weight") if mine is None else ("a weight", "computed")
            yield f"its input {position} is {kinds[0]} ({name}) and {kinds[1]} in the reference"
        elif name in pairs and pairs[name] != theirs:
            known = "" if pairs[name] == name else f" (the reference's {pairs[name]})"
            yield f"its input {position} is {name}{known}, and {theirs} in the reference"


def _how(mine: ir.TensorProtocol, theirs: ir.TensorProtocol) -> str:
    if mine.dtype != theirs.dtype or list(mine.shape) != list(theirs.shape):
        return f"in type or shape: {mine.dtype}{list(mine.shape)}, {theirs.dtype}{list(theirs.shape)} in the reference"
    one, two = mine.numpy(), theirs.numpy()
    count = int(np.count_nonzero(one != two))
    if one.dtype.kind not in "fiu":
        return f"in {count} of {one.size} values"
    gap = np.abs(one.astype(np.float64) - two.astype(np.float64))
    return f"in {count} of {one.size} values, by at most {gap.max(initial=0.0):.3g}"


def _kind(step: Step) -> str:
    return f"{step.domain}.{step.op_type}" if step.domain else step.op_type


def _shown(written: bytes | None) -> str:
    if written is None:
        return "absent"
    attribute = onnx.AttributeProto.FromString(written)
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR):
        return "other"
    return (
        str(list(value))
        if attribute.type > onnx.AttributeProto.GRAPH
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
