"""How far rounding alone moves the original's own answers. An export's rounding never counts: it could excuse its own faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sardonyx.agreement import Tolerance, extent, flatten, is_float, sums_to_one
from sardonyx.compare import noise
from sardonyx.compare.noise import GROSS, Method, Noise
from sardonyx.falsify import Answered
from sardonyx.signature import Array, Arrays, Signature
from sardonyx.sources import Original, Outputs

# Measured answers that are kept to guess the rounding of others from.
SAMPLES = 10
# Roundings of an output (3e-5 of its size in float32) that a runtime may be off by. A framework may add up pairwise, and its own
# rounding is then far smaller than that of a runtime that adds up in order: behind a mean of 3,328 equal numbers it was 290.
LEAST = 512.0
# Probabilities are softmaxes of sums: in float32, sums of a few hundred round by this much.
SHARES = 5e-5
# A difference up to so many tolerances is looked at again with inputs moved by one unit in the last place.
CLOSE = GROSS
# A move by one unit in the last place that changes an output by more than this share of its size crossed a threshold.
JUMP = 0.01

Used = Callable[[Noise], list[float]]  # for every item, the largest share of its tolerance that a candidate used


class SourceNoise:
    """The original's rounding: from its answers in float64 where the framework can, else from repeats in other orders.

    An answer is measured only when a verdict may depend on it; until then it has the rounding of others, scaled to it.
    """

    def __init__(self, original: Original, signature: Signature, first: Sequence[Answered]) -> None:
        self._original, self._signature = original, signature
        self._samples: list[tuple[Sequence[Any], list[Sequence[Any]]]] = []
        self._twins: dict[int, list[Sequence[Any]]] = {}  # by the identity of the item
        self.method: Method = "float64"
        chosen = [item for item in first if not item.probe.soft and not item.probe.on_edge] or list(first)
        start = _smallest_of_enough(chosen)
        self._measure([start])
        if not self._twins[id(start)]:
            self.method = "repeats"
            self._twins.clear()
            self._measure([start])

    def of(self, items: Sequence[Answered], used: Used) -> Noise:
        """The tolerances of these answers. `used` says what a candidate's differences take of them."""
        self._measure(_beyond(items, used(self._settle(items, guess="low"))))
        found = self._settle(items)
        doubtful = _beyond(items, used(found))
        if self._measure(doubtful):
            found = self._settle(items)
        close = [item for item, share in zip(items, used(found), strict=True) if 1 < share <= CLOSE]
        if self._shake(close):
            found = self._settle(items)
        return found

    def _settle(self, items: Sequence[Answered], guess: noise.Guess = "high") -> Noise:
        outputs = [item.outputs.arrays for item in items]
        twins = [self._twins.get(id(item), []) for item in items]
        found = noise.settle(self.method, outputs, twins, self._samples, guess=guess, least=LEAST)
        return replace(found, tolerances=tuple(map(_for_shares, outputs, found.tolerances)))

    def _measure(self, items: Sequence[Answered]) -> bool:
        """Measures those of the items that were not, and says whether there were any."""
        fresh = [item for item in items if id(item) not in self._twins]
        if not fresh:
            return False
        for item, twins in zip(fresh, self._ask(fresh), strict=True):
            self._twins[id(item)] = twins
            if twins and len(self._samples) < SAMPLES and not item.probe.soft:
                self._samples.append((item.outputs.arrays, twins))
        return True

    def _ask(self, items: Sequence[Answered]) -> list[list[Sequence[Any]]]:
        if self.method == "float64":
            exact = self._original.predict([item.probe.arrays for item in items], double=True)
            return [[answer.arrays] if isinstance(answer, Outputs) else [] for answer in exact]
        again = self._original.predict([_doubled(self._signature, item.probe.arrays) for item in items])
        found: list[list[Sequence[Any]]] = [
            [_first_half(answer.arrays, item.outputs.arrays)] if isinstance(answer, Outputs) else []
            for answer, item in zip(again, items, strict=True)
        ]
        for twins, moved in zip(found, self._moved(items), strict=True):
            twins += moved
        return found

    def _shake(self, items: Sequence[Answered]) -> bool:
        """Adds answers to inputs that differ in the last place, where these do not cross a threshold."""
        found = self._moved(items)
        for item, moved in zip(items, found, strict=True):
            self._twins.setdefault(id(item), []).extend(moved)
        return any(found)

    def _moved(self, items: Sequence[Answered]) -> list[list[Sequence[Any]]]:
        found: list[list[Sequence[Any]]] = [[] for _ in items]
        for seed in (1, 2):
            answers = self._original.predict([noise.moved(item.probe.arrays, seed) for item in items]) if items else []
            for index, answer in enumerate(answers):
                if isinstance(answer, Outputs) and not _jumps(items[index].outputs.arrays, answer.arrays):
                    found[index].append(answer.arrays)
        return found


def _for_shares(answer: Sequence[Any], tolerances: Sequence[Tolerance]) -> tuple[Tolerance, ...]:
    """The tolerances, with what is rounding in probabilities: they are ratios of numbers that are not seen."""
    return tuple(
        Tolerance(max(tolerance.absolute, SHARES), tolerance.relative) if sums_to_one(leaf) else tolerance
        for (_, leaf), tolerance in zip(flatten(answer), tolerances, strict=True)
    )


def _smallest_of_enough(items: Sequence[Answered]) -> Answered:
    """The probe with the least input of those whose answers are enough to measure on: float64 is slow."""
    enough = [item for item in items if min(map(np.size, item.outputs.arrays), default=0) >= noise.ENOUGH]
    return min(enough, key=lambda item: item.probe.size, default=items[0])


def _beyond(items: Sequence[Answered], used: Sequence[float]) -> list[Answered]:
    return [item for item, share in zip(items, used, strict=True) if share > 1]


def _jumps(answer: Sequence[Any], moved: Sequence[Any]) -> bool:
    """Whether an answer to inputs moved by one unit in the last place differs by more than rounding."""
    for (_, one), (_, two) in zip(flatten(answer), flatten(moved), strict=False):
        if one.shape != two.shape:
            return True
        if is_float(one.dtype):
            finite = np.isfinite(one) & np.isfinite(two)
            size = extent(one)
            if not np.array_equal(np.isfinite(one), np.isfinite(two)) or float(
                np.abs(one[finite] - two[finite]).max(initial=0.0)
            ) > JUMP * max(size, 1e-30):
                return True
        elif not np.array_equal(one, two):
            return True
    return False


def _doubled(signature: Signature, arrays: Arrays) -> Arrays:
    """The inputs with every row twice, where the batch is open: that sums in another order."""
    batch = next((spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)), None)
    return {spec.name: _twice(spec.shape, arrays[spec.name], batch) for spec in signature.inputs}


def _twice(shape: tuple[Any, ...] | None, array: Array, batch: object) -> Array:
    axes = [axis for axis, dim in enumerate(shape or ()) if batch is not None and dim == batch]
    return np.concatenate([array, array], axis=axes[0]) if axes else array


def _first_half(doubled: Sequence[Array], answer: Sequence[Array]) -> list[Array]:
    """The rows that were there before; an output without rows is taken as it is."""
    return [
        big[: len(small)] if big.ndim and small.ndim and len(big) == 2 * len(small) else big
        for big, small in zip(doubled, answer, strict=False)
    ]
