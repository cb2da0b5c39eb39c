"""Which nodes to leave in float: those whose rounding shows most at the outputs, as few as the budget needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import onnx_ir as ir

from sardonyx import progress
from sardonyx.deadline import Deadline
from sardonyx.errors import RuntimeRefused
from sardonyx.model import Model
from sardonyx.quantize.evaluate import Judge, Reference
from sardonyx.quantize.prepare import constant, is_weighted
from sardonyx.quantize.qdq import MOVING, Range, after_clamp, bias_of, quantizable, summed_order, weight_axis
from sardonyx.quantize.steps import Plan, activation_step, weight_step
from sardonyx.quantize.subject import Subject
from sardonyx.run.session import Session, Settings

# Examples that each node is measured on alone: enough to order nodes by. The share of the time left that this may take.
PROBED, PROBING = 8, 0.5
# Neighbours that are measured together at most.
TOGETHER = 4
# The share of the budget that a shortened plan may use up on the data of the search.
TARGET = 0.75


def spared(
    subject: Subject, plan: Plan, calibrator: str, judge: Judge, screening: Reference, *, limit: Deadline
) -> Plan | None:
    """The plan without as few of its most harmful nodes as bring it well within the budget; None where time runs out.

    Well within, because the data of the search is not that of the guard.
    """
    good_enough = TARGET * judge.budget.amount + 1e-12
    harmful = ranked(subject, plan, calibrator, screening, limit)

    def shortened(count: int) -> Plan:
        return plan.without(frozenset().union(*harmful[:count]))

    def good(count: int) -> bool:
        session = Session(subject.built(shortened(count), calibrator), subject.settings)
        return judge.score(session, screening).loss <= good_enough

    count = _fewest(good, len(harmful), limit)
    return None if count is None else shortened(count)


def _fewest(good: Callable[[int], bool], most: int, limit: Deadline) -> int | None:
    """Doubles the count until it is enough, then halves the gap. To spare all of them is no answer."""
    low, count = 0, 1
    while count < most and not good(count):
        low, count = count, count * 2
        if limit.passed:
            return None
    if count >= most:
        return None
    while count - low > 1 and not limit.passed:
        middle = (low + count) // 2
        low, count = (low, middle) if good(middle) else (middle, count)
    return count


def ranked(
    subject: Subject, plan: Plan, calibrator: str, screening: Reference, limit: Deadline
) -> list[frozenset[str]]:
    """The nodes of the plan, the most harmful first: each measured alone, or with its neighbours where time is short.

    Where even that takes too long, they are ordered by the noise that their rounding adds, which is free and less true. It
    also decides where measuring tells no difference, as for outputs that are no floats.
    """
    noise = local_noise(subject, plan, calibrator)
    names = list(noise)
    by_noise = [frozenset([name]) for name in sorted(names, key=lambda name: -noise[name])]
    few = screening.take(PROBED)
    probing = limit.share(PROBING)
    if probing.passed or len(names) < 2:
        return by_noise

    @cache
    def harm(group: frozenset[str]) -> float:
        alone = Plan(group, plan.activation, plan.weight, plan.per_channel, plan.reduce_range)
        return distance(subject.built(alone, calibrator), few, subject.settings)

    harm(by_noise[0])
    together = max(1, math.ceil(probing.taken * len(names) / probing.seconds))
    if together > min(TOGETHER, len(names) - 1):
        return by_noise
    groups = [frozenset(names[at : at + together]) for at in range(0, len(names), together)]
    found: dict[frozenset[str], tuple[float, float]] = {}
    with progress.task("sensitivity", total=len(groups)) as advance:
        for group in groups:
            if limit.passed:  # some measured and some not would be two different scales
                return by_noise
            found[group] = harm(group), sum(noise[name] for name in group)
            advance(1, f"sensitivity of {min(group)}")
    return sorted(groups, key=found.__getitem__, reverse=True)


def distance(model: Model, reference: Reference, settings: Settings) -> float:
    """How far the model's outputs are from float's; infinitely, if it does not run."""
    try:
        return reference.distance(reference.answers(Session(model, settings)))
    except RuntimeRefused:
        return float("inf")


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
