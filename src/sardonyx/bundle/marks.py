"""Marks: a few numbers of every tensor of a run, enough to tell on another day which tensor was the first to change.

A mark holds some elements, and sums of all elements under signs drawn at random: a change of any element changes the sums.
Each has the tolerance that the tensor's own rounding asks for. A tensor takes about 200 bytes, whatever its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.agreement import Tolerance, is_float, judge, wide
from sardonyx.compare.floor import floor_of
from sardonyx.compare.flow import Flow
from sardonyx.compare.graph_noise import wide_bytes
from sardonyx.compare.look import again
from sardonyx.compare.noise import SAFETY
from sardonyx.compare.partial import Trace
from sardonyx.errors import RuntimeRefused
from sardonyx.model import Model
from sardonyx.signature import Array, Arrays

ELEMENTS, SUMS = 8, 4
# A tensor is held with its twin in float64 and a copy in float64.
COPIES = 5
# Marks are kept to nine digits.
DIGITS = 1e-8
# What an 8-bit step is of the largest value: rounding may push a value to the next step.
STEPS = 127
_QUANTIZED = ("DequantizeLinear", "QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul")


def mark_tensors(model: Model, inputs: Mapping[str, Array], *, memory: int) -> list[dict[str, Any]]:
    """The marks of every float tensor, in the order of the graph, when the model runs node by node on these inputs."""
    trace = Trace(Flow.of(model), inputs)
    try:
        trace.settle()
        sizes = trace.sizes()
    except RuntimeRefused:  # what does not run node by node has no marks, and is replayed all the same
        return []
    use_wide = wide_bytes(trace.flow, sizes) <= memory
    found: list[dict[str, Any]] = []
    for names in chunks(trace, sizes, memory):
        arrays = trace.fetch(names)
        floats = [name for name in names if is_float(arrays[name].dtype)]
        twins = again(trace, floats, wide=use_wide) if floats else {}
        found += [_mark(trace.flow, name, arrays[name], twins[name]) for name in floats]
    return found


def first_change(model: Model, inputs: Mapping[str, Array], marks: Sequence[Mapping[str, Any]], *, memory: int) -> Any:
    """The first marked tensor that is not as it was, as a dict with its node; None if all are."""
    trace = Trace(Flow.of(model), inputs)
    trace.settle()
    known = {mark["tensor"]: mark for mark in marks}
    for names in chunks(trace, trace.sizes(), memory):
        wanted = [name for name in names if name in known]
        arrays: Arrays = trace.fetch(wanted) if wanted else {}
        for name in wanted:
            why, error = _difference(known[name], arrays[name])
            if why:
                step = trace.flow.steps[trace.flow.producer[name]]
                return {"node": step.name, "op_type": step.op_type, "tensor": name, "why": why, "max_abs": error}
    return None


def chunks(trace: Trace, sizes: Mapping[str, int], memory: int) -> Iterator[list[str]]:
    """Every tensor in the order of the graph, as many at a time as may be held."""
    chosen, held = list[str](), 0
    for name in trace.flow.tensors:
        if name not in sizes:  # a sequence or map, which has no one shape
            continue
        if chosen and held + COPIES * sizes[name] > memory:
            yield chosen
            chosen, held = [], 0
        chosen.append(name)
        held += COPIES * sizes[name]
    if chosen:
        yield chosen


def _mark(flow: Flow, name: str, array: Array, twin: Array) -> dict[str, Any]:
    step = flow.steps[flow.producer[name]]
    values = _finite(array)
    floor = floor_of(array, [twin])
    absolute, relative = (SAFETY["float64"] * part for part in (floor.absolute, floor.relative))
    error = _finite(twin) - values if twin.shape == array.shape else np.zeros(1)
    spread = float(np.sqrt(np.mean(error**2))) if error.size else 0.0
    if step.op_type in _QUANTIZED:
        jump = float(np.abs(values).max(initial=0.0)) / STEPS
        absolute, spread = absolute + jump, spread + jump / SAFETY["float64"]
    sums = _sums(values)
    shift = max(abs(one - two) for one, two in zip(sums, _sums(values + error), strict=True)) if error.size > 1 else 0.0
    noise = max(shift, (spread + floor.absolute + floor.relative * floor.scale) * math.sqrt(max(1, array.size)))
    return {
        "node": step.name, "op_type": step.op_type, "tensor": name, "shape": list(array.shape),
        "elements": [_short(value) for value in values[_places(array.size)]], "sums": [_short(value) for value in sums],
        "absolute": _short(absolute), "relative": _short(relative), "sum_tolerance": _short(SAFETY["float64"] * noise),
        "not_finite": int(np.count_nonzero(~np.isfinite(array))),
    }  # fmt: skip


def _difference(mark: Mapping[str, Any], array: Array) -> tuple[str, float | None]:
    """What has changed beyond rounding, in words, and by how much; nothing if nothing has."""
    if list(array.shape) != list(mark["shape"]):
        return f"its shape is {list(array.shape)} and was {mark['shape']}", None
    broken = int(np.count_nonzero(~np.isfinite(array)))
    if broken != mark["not_finite"]:
        return f"{broken} of its values are not finite, and {mark['not_finite']} were", None
    values, kept = _finite(array), [np.array(mark[name], np.float64) for name in ("elements", "sums")]
    allowed = [Tolerance(mark["absolute"], mark["relative"] + DIGITS), Tolerance(mark["sum_tolerance"], DIGITS)]
    elements, sums = judge(kept, [values[_places(array.size)], np.array(_sums(values))], allowed).outputs
    if elements.verdict == "mismatch":
        return "its elements have changed", elements.max_abs
    if sums.verdict == "mismatch":
        return "the sums over its elements have changed", None
    return "", None


def _places(size: int) -> list[int]:
    return [(2 * index + 1) * size // (2 * ELEMENTS) for index in range(ELEMENTS)] if size else []


def _sums(values: Array) -> list[float]:
    """Sums under signs. The raw numbers of this generator are the same in every release of numpy."""
    found = []
    for seed in range(SUMS):
        words = np.random.PCG64(seed).random_raw(-(-max(1, values.size) // 64)).astype("<u8")
        signs = np.unpackbits(words.view(np.uint8), count=values.size)
        found.append(float(values.sum() - 2 * values[signs.astype(bool)].sum()))
    return found


def _finite(array: Array) -> Array:
    flat = wide(array.reshape(-1))
    return np.where(np.isfinite(flat), flat, 0.0)


def _short(value: float) -> float:
    return float(f"{value:.9g}")
