"""How far rounding alone moves a model's outputs, measured, and the tolerance that follows from it.

A model is compared with itself: with its float64 twin where that can be made, else with repeats under other conditions.
The spread at an element is described by two numbers, `absolute + relative * |value|`: the relative part is read off the
largest elements, the absolute part is what the others need on top (a logarithm near zero, a difference of large terms).
docs/concepts/rounding-or-bug.md gives the reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from sardonyx.agreement import Tolerance, flatten, is_float, unit_roundoff
from sardonyx.compare import columns
from sardonyx.compare.floor import Floor, floor_of
from sardonyx.signature import Array, Arrays

Method = Literal["float64", "repeats", "given", "exact"]
Guess = Literal["high", "low"]

# An honest variant rounds elsewhere: its error is independent of the measured one, may be a few times larger (sums in
# another order, a fused operator) and is looked at where it is worst. Repeats share kernels, so they show less of it.
SAFETY: dict[Method, float] = {"float64": 16.0, "repeats": 96.0}
# With fewer measured values than this, one of them may be small by luck, so inputs moved by one unit in the last place add some.
ENOUGH = 64
# A difference below this share of a tolerance that was measured on another batch needs no measurement of its own.
DOUBTFUL = 0.5
# A difference of so many tolerances, of a batch that was measured itself, stays one whatever the others would show.
GROSS = 30.0
# Where an output is zero or nearly so, what cancelled is not seen in it: its rounding is at least that of so small a share of
# the size that it has on other batches.
CANCELLED = 1e-6


@dataclass(frozen=True)
class Noise:
    """The tolerance of every flattened output of every batch.

    `stable` says of each batch whether NaN and infinities stayed where they were when only the rounding changed.
    """

    method: Method
    tolerances: tuple[tuple[Tolerance, ...], ...]
    stable: tuple[bool, ...]


def settle(
    method: Method,
    outputs: Sequence[Sequence[Any]],
    twins: Sequence[Sequence[Sequence[Any]]],
    extra: Sequence[tuple[Sequence[Any], Sequence[Sequence[Any]]]] = (),
    *,
    guess: Guess = "high",
    least: float = 0.0,
) -> Noise:
    """The noise, from answers and, for each, the answers of its twins.

    An answer without a twin gets a guess from the others, scaled to it: a high one to be judged by, or a low one to find
    out whether it should be measured itself. What was measured was mostly chosen for being in doubt, so it is not typical.
    Up to `GROSS` times what was measured is allowed as long as that is no more than `least` roundings of a number of the
    output's own size.
    """
    measured = [_floors(answer, others) if others else None for answer, others in zip(outputs, twins, strict=True)]
    samples = [floors for floors in (*measured, *(_floors(*pair) for pair in extra)) if floors is not None]
    stable = tuple(_same_finite(answer, others) for answer, others in zip(outputs, twins, strict=True))
    typical = _typical([*outputs, *(answer for answer, _ in extra)])
    pairs = extra or [pair for pair in zip(outputs, twins, strict=True) if pair[1]]
    uneven = columns.of_outputs(pairs) if method == "float64" else {}

    def tolerance(index: int, leaf: Array, floors: list[Floor] | None) -> Tolerance:
        given = [sample[index] for sample in samples if index < len(sample)]
        own = _tolerance(method, leaf, floors[index] if floors else None, given, guess)
        size = SAFETY[method] * CANCELLED * typical[index]
        found = _at_least(own, leaf, size, least)
        if index not in uneven:
            return found
        return replace(found, columns=uneven[index].at(leaf, own.absolute, unit_roundoff(leaf.dtype) * size))

    tolerances = tuple(
        tuple(tolerance(index, leaf, floors) for index, (_, leaf) in enumerate(flatten(answer)))
        for answer, floors in zip(outputs, measured, strict=True)
    )
    return Noise(method, tolerances, stable)


def fixed(method: Method, tolerance: Tolerance, outputs: Sequence[Sequence[Any]]) -> Noise:
    """One tolerance for everything, not measured."""
    return Noise(method, tuple((tolerance,) * len(flatten(answer)) for answer in outputs), (True,) * len(outputs))


def added(noise: Noise, tolerance: Tolerance) -> Noise:
    """The measured tolerances with what the user allows on top."""
    widened = tuple(tuple(own.plus(tolerance) for own in batch) for batch in noise.tolerances)
    return Noise(noise.method, widened, noise.stable)


def larger(one: Noise, two: Noise) -> Noise:
    """The larger tolerance of two measurements, and stable only where both are."""
    merged = tuple(
        tuple(a.or_larger(b) for a, b in zip_longest(first, second, fillvalue=Tolerance()))
        for first, second in zip(one.tolerances, two.tolerances, strict=True)
    )
    return Noise(one.method, merged, tuple(a and b for a, b in zip(one.stable, two.stable, strict=True)))


def tolerance_of(reference: Array, twins: Sequence[Array], method: Method) -> Tolerance:
    """The tolerance of one tensor from its own spread alone."""
    floor = floor_of(reference, twins)
    return Tolerance(SAFETY[method] * floor.absolute, SAFETY[method] * floor.relative)


def moved(batch: Mapping[str, Array], seed: int) -> Arrays:
    """The batch with every float one unit in the last place up or down."""
    random = np.random.default_rng(seed)

    def step(array: Array) -> Array:
        where = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf)
        with np.errstate(over="ignore"):
            return np.asarray(np.nextafter(array, where.astype(array.dtype)))

    return {name: step(array) if array.dtype.kind == "f" else array for name, array in batch.items()}


def _floors(answer: Sequence[Any], twins: Sequence[Sequence[Any]]) -> list[Floor]:
    others = [[array for _, array in flatten(twin)] for twin in twins]
    leaves = [array for _, array in flatten(answer)]
    return [
        floor_of(leaf, [other[index] for other in others if index < len(other)])
        if is_float(leaf.dtype)
        else Floor(0.0, 0.0, 0.0)
        for index, leaf in enumerate(leaves)
    ]


def _tolerance(method: Method, leaf: Array, own: Floor | None, samples: Sequence[Floor], guess: Guess) -> Tolerance:
    """The output's own noise. Where it was not measured, or on few values, which may be small by luck, the samples count too."""
    safety = SAFETY[method]
    if not is_float(leaf.dtype):
        return Tolerance()
    if own is not None and method == "float64" and leaf.size >= ENOUGH:
        return Tolerance(safety * own.absolute, safety * own.relative)
    pick = _upper_quartile if guess == "high" or own is not None else _lowest
    scale = own.scale if own is not None else floor_of(leaf).scale
    absolute = pick([sample.absolute / sample.scale for sample in samples if sample.scale]) * scale
    relative = pick([sample.relative for sample in samples])
    if method == "repeats":
        # They do not show how large the terms were that cancel to a small output; the other samples do.
        absolute = max(absolute, pick([sample.absolute for sample in samples]))
    if own is not None:
        absolute, relative = max(absolute, own.absolute), max(relative, own.relative)
    return Tolerance(safety * absolute, safety * relative)


def _typical(outputs: Sequence[Sequence[Any]]) -> list[float]:
    """The size, as a root mean square, that each flattened output mostly has: the median, so that no huge input decides."""
    found: list[list[float]] = []
    for answer in outputs:
        for index, (_, leaf) in enumerate(flatten(answer)):
            if index == len(found):
                found.append([])
            if is_float(leaf.dtype) and (size := floor_of(leaf).scale):
                found[index].append(size)
    return [float(np.median(sizes)) if sizes else 0.0 for sizes in found]


def _at_least(tolerance: Tolerance, leaf: Array, size: float, least: float) -> Tolerance:
    """The tolerance, but no less than the type's own rounding of a number of this size, and than what `settle` allows."""
    if not is_float(leaf.dtype):
        return tolerance
    unit = unit_roundoff(leaf.dtype)
    absolute = max(tolerance.absolute, unit * size)
    if least:
        absolute = max(absolute, min(GROSS * absolute, least * unit * floor_of(leaf).scale))
    return Tolerance(absolute, tolerance.relative)


def _lowest(values: Sequence[float]) -> float:
    return min(values, default=0.0)


def _upper_quartile(values: Sequence[float]) -> float:
    """So that no odd one rules."""
    return sorted(values)[(len(values) - 1) * 3 // 4] if values else 0.0


def _same_finite(answer: Sequence[Any], twins: Sequence[Sequence[Any]]) -> bool:
    leaves = [array for _, array in flatten(answer)]
    for twin in twins:
        for one, (_, two) in zip(leaves, flatten(twin), strict=False):
            if is_float(one.dtype) and (
                one.shape != two.shape or not np.array_equal(np.isfinite(one), np.isfinite(two))
            ):
                return False
    return True
