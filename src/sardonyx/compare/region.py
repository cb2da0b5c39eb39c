"""A stretch of the candidate that has no counterpart inside: made smaller by values, and the odd one in it picked out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sardonyx.agreement import Tolerance, is_float, judge
from sardonyx.compare.align import attribute_bytes, weight_digest
from sardonyx.compare.floor import floor_of
from sardonyx.compare.flow import Flow, Step
from sardonyx.compare.look import COPIES, Both
from sardonyx.errors import RuntimeRefused
from sardonyx.signature import Array

# Tensors closer than this share of their size are taken for the same. Inside a region only what follows from it is decided.
CLOSE = 1e-4

Signature = tuple[object, ...]
Signed = tuple[Step, Signature]


def steps_between(flow: Flow, sources: Sequence[str], target: str) -> list[Step]:
    """The steps that make the target from the sources."""
    return [flow.steps[index] for index in flow.needed([target], sources)]


def match_values(both: Both, bad: str, frontier: Sequence[str], pairs: Mapping[str, str]) -> dict[str, str]:
    """Pairs of tensors inside the region and its counterpart that have one shape and nearly one value.

    The candidate computes its side from what the reference has at the frontier, so that nothing earlier can mislead.
    """
    sources = {name: pairs[name] for name in frontier}
    inside = list(steps_between(both.candidate.flow, frontier, bad))
    mine = [name for step in inside for name in step.outputs if name in both.sizes and name not in pairs]
    taken = {*pairs.values()}
    around = steps_between(both.reference.flow, list(sources.values()), pairs[bad])
    theirs = [name for step in around for name in step.outputs if name and name not in taken]
    if not mine or not theirs or COPIES * sum(both.sizes.get(name, 0) for name in (*mine, *frontier)) > both.memory:
        return {}
    try:
        expected = both.reference.fetch([*sources.values(), *theirs])
        given = both.given({name: expected[other] for name, other in sources.items()})
        actual = both.candidate.fetch(mine, given)
    except RuntimeRefused:
        return {}
    found: dict[str, str] = {}
    for name in mine:
        close = (other for other in theirs if other not in found.values() and _close(expected[other], actual[name]))
        match = next(close, None)
        if match is not None:
            found[name] = match
    return found


def odd_one_out(
    reference: Flow, candidate: Flow, region: Sequence[Step], counterpart: Sequence[Step]
) -> tuple[Step | None, Step | None]:
    """The one step of the region whose operator, attributes and weights the counterpart has not, and the one it has instead.

    None where that is not one alone. Of an operator that comes in two versions only the name counts: it says the same in
    other words.
    """
    versions = {(step.domain, step.op_type): reference.since(step) for step in counterpart}
    known = {(step.domain, step.op_type): candidate.since(step) for step in region}
    reworded = {key for key in known if versions.get(key, known[key]) != known[key]}
    theirs = [(step, _signature(reference, step, reworded)) for step in counterpart]
    mine = [(step, _signature(candidate, step, reworded)) for step in region]
    return _only_left(mine, theirs), _only_left(theirs, mine)


def _only_left(steps: Sequence[Signed], others: Sequence[Signed]) -> Step | None:
    """The step that is left when every other is struck out against one of the same signature."""
    known = Counter(signature for _, signature in others)
    left = []
    for step, signature in steps:
        known[signature] -= 1
        if known[signature] < 0:
            left.append(step)
    return left[0] if len(left) == 1 else None


def _signature(flow: Flow, step: Step, reworded: Collection[tuple[str, str]]) -> Signature:
    if (step.domain, step.op_type) in reworded:
        return step.domain, step.op_type
    weights = sorted(weight_digest(flow.weights[name]) for name in step.inputs if name in flow.weights)
    return step.domain, step.op_type, tuple(attribute_bytes(step, flow.opsets).items()), tuple(weights)


def _close(expected: Array, actual: Array) -> bool:
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return False
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    scale = floor_of(expected).scale if is_float(expected.dtype) else 0.0
    return judge([expected], [actual], [Tolerance(CLOSE * scale)]).verdict != "mismatch"
