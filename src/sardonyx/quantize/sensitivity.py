"""Which nodes to leave in float: those whose rounding shows most at the outputs, as few as the budget needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from sardonyx import progress
from sardonyx.model import Model
from sardonyx.quantize.evaluate import Judge, Reference
from sardonyx.quantize.prepare import constant, is_weighted
from sardonyx.quantize.qdq import MOVING, Range, after_clamp, bias_of, quantizable, summed_order, weight_axis
from sardonyx.quantize.steps import Plan, activation_step, weight_step
from sardonyx.quantize.subject import Subject
from sardonyx.run.session import Session, Settings

# Examples that each node is measured on alone: enough to order nodes by.
PROBED = 8
# The share of the budget that a shortened plan may use up on the data of the search.
TARGET = 0.75


def spared(
    subject: Subject, plan: Plan, calibrator: str, judge: Judge, screening: Reference, *, end: float
) -> Plan | None:
    """The plan without as few of its most harmful nodes as bring it well within the budget; None where time runs out.

    Well within, because the data of the search is not that of the guard.
    """
    good_enough = TARGET * judge.budget.amount + 1e-12
    for order in (by_noise, ranked):
        harmful = order(subject, plan, calibrator, screening, end)

        def good(count: int, names: list[str] = harmful) -> bool:
            session = Session(subject.built(plan.without(set(names[:count])), calibrator), subject.settings)
            return judge.score(session, screening).loss <= good_enough

        count = _fewest(good, len(harmful), end)
        if count is not None:
            return plan.without(set(harmful[:count]))
    return None


def _fewest(good: Callable[[int], bool], most: int, end: float) -> int | None:
    """Doubles the count until it is enough, then halves the gap."""
    low, count = 0, 1
    while not good(count):
        low, count = count, count * 2
        if count >= most or time.monotonic() > end:
            return None
    while count - low > 1 and time.monotonic() < end:
        middle = (low + count) // 2
        low, count = (low, middle) if good(middle) else (middle, count)
    return count


def by_noise(subject: Subject, plan: Plan, calibrator: str, _screening: Reference, _end: float) -> list[str]:
    """The nodes of the plan, those whose rounding adds most noise first: free, and nearly always the right order."""
    noise = local_noise(subject, plan, calibrator)
    return sorted(noise, key=lambda name: -noise[name])


def ranked(subject: Subject, plan: Plan, calibrator: str, screening: Reference, end: float) -> list[str]:
    """The nodes of the plan, the most harmful first: measured one by one where time allows, else by their own noise."""
    order = by_noise(subject, plan, calibrator, screening, end)
    few = screening.take(max(1, PROBED // max(1, len(next(iter(screening.batches[0].inputs.values()))))))
    measured: dict[str, float] = {}
    started, share = time.monotonic(), (end - time.monotonic()) / 3
    with progress.task("sensitivity", total=len(order)) as advance:
        for name in order:
            spent = time.monotonic() - started
            # Measuring some nodes and not others would order them by two different scales: all of them or the noise alone.
            if spent > share or (measured and spent / len(measured) * len(order) > share):
                return order
            alone = Plan(frozenset([name]), plan.activation, plan.weight, plan.per_channel, plan.reduce_range)
            measured[name] = distance(subject.built(alone, calibrator), few, subject.settings)
            advance(1, f"sensitivity of {name}")
    return sorted(measured, key=lambda name: -measured[name])


def distance(model: Model, reference: Reference, settings: Settings) -> float:
    """How far the outputs are from float's, relative to their size; the worst output counts."""
    session = Session(model, settings)
    worst: dict[str, list[tuple[float, float]]] = {}
    for batch, real in zip(reference.batches, reference.outputs, strict=True):
        for name, value in session.run_fitted(batch.inputs).items():
            if value.dtype.kind == "f":
                error = float(((value.astype(np.float64) - real[name]) ** 2).sum())
                worst.setdefault(name, []).append((error, float((real[name].astype(np.float64) ** 2).sum())))
    ratios = [sum(e for e, _ in pairs) / max(sum(s for _, s in pairs), 1e-30) for pairs in worst.values()]
    return max(ratios, default=0.0) if all(np.isfinite(ratios)) else float("inf")


def local_noise(subject: Subject, plan: Plan, calibrator: str) -> dict[str, float]:
    """The noise that each node of the plan adds by rounding its weights and its result, relative to the signal."""
    ranges = subject.ranges(calibrator)
    noise = {}
    for node in quantizable(subject.model):
        if node.name not in plan.nodes or node.op_type in MOVING:
            continue
        found = 0.0
        weight = constant(node.inputs[1]) if is_weighted(node) else None
        if weight is not None:
            array = weight.numpy()
            axis = weight_axis(node, array) if plan.per_channel else None
            step = weight_step(array, axis, plan, summed_order(node, array))
            integers = subject.rounding.weights(node, array, step, biased=bias_of(node, array) is not None)
            found += subject.rounding.noise(node, array, integers, step)
        for value in _rounded_values(node):
            found += _value_noise(subject, value.name or "", plan, ranges)
        noise[node.name or ""] = found
    return noise


def _rounded_values(node: ir.Node) -> list[ir.Value]:
    """What goes in is always rounded; what comes out of a product of matrices is not."""
    inside = [value for value in node.inputs[: 1 if is_weighted(node) else None] if value is not None]
    return inside if node.op_type in ("MatMul", "Gemm") else [*inside, after_clamp(node)]


def _value_noise(subject: Subject, name: str, plan: Plan, ranges: Mapping[str, Range]) -> float:
    histogram = subject.histograms.get(name)
    if histogram is None or not histogram.total or name not in ranges:
        return 0.0
    scale = float(activation_step(*ranges[name], plan.activation).scale)
    power = (histogram.counts * histogram.centres**2).sum() / histogram.total
    clipped = histogram.centres - np.clip(histogram.centres, *ranges[name])
    cut = (histogram.counts * clipped**2).sum() / histogram.total
    return float((scale**2 / 12 + cut) / max(power, 1e-30))
