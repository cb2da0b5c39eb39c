"""The error ledger: one set of reference activations, followed through every stage, and how much error each stage added where.

The reference is the float model computed in float64; where that cannot be made, it is the float model itself. An error is
relative: the root mean square of the difference over that of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.agreement import flatten, is_float, wide
from sardonyx.bundle.marks import chunks
from sardonyx.compare.align import align
from sardonyx.compare.flow import Flow
from sardonyx.compare.graph_noise import wide_bytes
from sardonyx.compare.partial import Trace, assemble, execute
from sardonyx.compare.widen import NARROW, widen
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.model import Model
from sardonyx.signature import Array, Arrays
from sardonyx.sources import Outputs

FRAMEWORK = "framework"
# Pairs that were found by their place in the graph alone may be wrong, and an error of two different tensors says nothing.
_SURE = ("inputs", "outputs", "computation", "name")


@dataclass
class Entry:
    """One tensor of the float model and its error at every stage that still has it."""

    node: str
    op_type: str
    tensor: str
    error: dict[str, float] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)

    def to_dict(self, stages: Sequence[str]) -> dict[str, Any]:
        return {
            "node": self.node, "op_type": self.op_type, "tensor": self.tensor, "error": self.error,
            "added": added(self.error, stages), "tensors": self.tensors,
        }  # fmt: skip


def keep_ledger(
    models: Mapping[str, Path], inputs: Mapping[str, Array], *, framework: Outputs | None = None, memory: int = 1 << 30
) -> dict[str, Any]:
    """The ledger of the models by stage, the float one first, on these inputs. Nothing of it is longer than the graph.

    At most about `memory` bytes of tensors are held at a time. `framework` is what the original answered.
    """
    stages = list(models)
    traces = {stage: Trace(Flow.of(Model.load(path)), inputs) for stage, path in models.items()}
    first = traces[stages[0]]
    try:
        for trace in traces.values():
            trace.settle()
        sizes = first.sizes()
    except RuntimeRefused as error:
        return {"stages": stages, "reference": None, "nodes": [], "outputs": [], "reason": error.message}
    in_float64 = wide_bytes(first.flow, sizes) <= memory and _can_widen(first)
    pairs = {stage: _pairs(first.flow, traces[stage].flow) for stage in stages[1:]}
    entries: list[Entry] = []
    for names in chunks(first, sizes, memory // len(stages)):
        entries += _chunk(names, traces, pairs, in_float64)
    return {
        "stages": stages,
        "reference": "float64" if in_float64 else "float",
        "nodes": [entry.to_dict(stages) for entry in entries],
        "outputs": _outputs(first.flow.outputs, entries, traces, framework, in_float64, stages),
    }


def relative_error(reference: Array, array: Array) -> float | None:
    """The size of the difference as a share of the reference; None where the two cannot be compared."""
    if reference.shape != array.shape or not is_float(reference.dtype) or not is_float(array.dtype) or not array.size:
        return None
    one, two = wide(reference), wide(array)
    usable = np.isfinite(one) & np.isfinite(two)
    if not usable.any():
        return None
    size = float(np.sqrt(np.mean(one[usable] ** 2)))
    error = float(np.sqrt(np.mean((one[usable] - two[usable]) ** 2)))
    return error / size if size else (0.0 if not error else None)


def added(error: Mapping[str, float], stages: Sequence[str]) -> dict[str, float]:
    """What each stage put on top of the stage before it that has the tensor; less than nothing where it took error away."""
    found, before = {}, 0.0
    for stage in stages:
        if stage in error:
            found[stage], before = error[stage] - before, error[stage]
    return found


def _chunk(
    names: Sequence[str], traces: Mapping[str, Trace], pairs: Mapping[str, Mapping[str, str]], in_float64: bool
) -> list[Entry]:
    stage, *later = traces
    first = traces[stage]
    own = first.fetch(names)
    floats = [name for name in names if isinstance(own[name], np.ndarray) and is_float(own[name].dtype)]
    reference = _wide(first, floats) if in_float64 and floats else {name: own[name] for name in floats}
    entries = {name: _entry(first.flow, name) for name in floats}
    if in_float64:
        _note(entries, stage, {name: name for name in floats}, reference, own)
    for other in later:
        known = {name: pairs[other][name] for name in floats if name in pairs[other]}
        found = traces[other].fetch(list(known.values())) if known else {}
        _note(entries, other, known, reference, found)
    return list(entries.values())


def _note(
    entries: Mapping[str, Entry], stage: str, known: Mapping[str, str], reference: Arrays, found: Mapping[str, Any]
) -> None:
    for name, theirs in known.items():
        value = relative_error(reference[name], np.asarray(found[theirs]))
        if value is not None:
            entries[name].error[stage] = value
            if theirs != name:
                entries[name].tensors[stage] = theirs


def _entry(flow: Flow, name: str) -> Entry:
    step = flow.steps[flow.producer[name]]
    return Entry(step.name, step.op_type, name)


def _pairs(reference: Flow, flow: Flow) -> dict[str, str]:
    """Tensor of the float model to the tensor of a later stage that stands for it."""
    same_inputs = {name: name for name in flow.inputs}
    same_outputs = dict(zip(flow.outputs, reference.outputs, strict=True))
    found = align(reference, flow, same_inputs, same_outputs)
    return {theirs: mine for mine, theirs in found.pairs.items() if found.ways.get(mine) in _SURE}


def _can_widen(trace: Trace) -> bool:
    try:
        _wide(trace, trace.flow.outputs)
    except (InputError, RuntimeRefused):
        return False
    return True


def _wide(trace: Trace, names: Sequence[str]) -> Arrays:
    """The tensors in float64, from float32 weights."""
    wanted = [name for name in names if name in trace.flow.producer]
    proto, feeds = assemble(trace.flow, wanted, trace.inputs)
    twin = widen(proto)
    taken = {value.name for value in twin.graph.input}
    return execute(twin, {name if name in taken else name + NARROW: array for name, array in feeds.items()}, wanted)


def _outputs(
    names: Sequence[str],
    entries: Sequence[Entry],
    traces: Mapping[str, Trace],
    framework: Outputs | None,
    in_float64: bool,
    stages: Sequence[str],
) -> list[dict[str, Any]]:
    by_tensor = {entry.tensor: entry for entry in entries}
    found = {name: dict(by_tensor[name].error) for name in names if name in by_tensor}
    if framework is not None:
        first = traces[stages[0]]
        reference = _wide(first, names) if in_float64 else first.fetch(names)
        answers = [array for _, array in flatten(framework.arrays)]
        for name, answer in zip(names, answers, strict=False):
            value = relative_error(reference[name], np.asarray(answer).reshape(reference[name].shape)) if (
                name in found and np.size(answer) == np.size(reference[name])
            ) else None  # fmt: skip
            if value is not None:
                found[name] = {FRAMEWORK: value, **found[name]}
    return [{"name": name, "error": error, "added": added(error, stages)} for name, error in found.items()]
