"""Where an answer jumps, as a cast to integers does, rounding decides the side. Does the original itself answer so?

It is asked in float64, and with inputs that differ in their last places. What is wrong everywhere stays wrong: only so many
elements are forgiven as rounding alone moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sardonyx.agreement import Judgement, OutputVerdict, Tolerance, same_elements
from sardonyx.falsify import Answered
from sardonyx.signature import Array, Arrays
from sardonyx.sources import Failure, Original, Outputs

# Answers of the original to inputs moved by up to so many units in the last place: about what rounding inside it adds up to.
SHAKES, UNITS = 12, 4
# More of an output than this lies beside a step by no chance, unless as much of it moves in float64.
FEW = 0.01
# An export rounds elsewhere than the original, so that so many times as many of its elements may fall on the other side.
TIMES, MORE = 8, 2
# On inputs that are all alike a norm or a spread is zero, and what is divided by it is noise: so little noise shows it.
STIRS, NOISE = 4, 1e-6
# Inputs of which fewer values than this are different from each other, and not whole, may lie on a step on purpose.
COMMON = 0.9


class Steps:
    """Where rounding decides in one original: asked once for each of its answers, and remembered for all exports."""

    def __init__(self, original: Original) -> None:
        self._original = original
        self._beside: dict[int, _Beside] = {}
        self._moving: set[int] = set()  # the outputs whose integers rounding was seen to move

    def forgive(self, found: Judgement, item: Answered, answer: Outputs, allowed: Sequence[Tolerance]) -> Judgement:
        """The judgement, in which elements that rounding puts on either side of a step are rounding."""
        wrong = [output for output in found.outputs if output.verdict == "mismatch"]
        names = item.outputs.names
        if not wrong or len(allowed) != len(names) or any(output.name not in names for output in wrong):
            return found
        apart = {output.name: _apart(item, answer, names.index(output.name), allowed) for output in wrong}
        for name, where in apart.items():
            place = names.index(name)
            if where is None or not self._is_rounding(
                item, place, np.asarray(answer.arrays[place]), where, allowed[place]
            ):
                return found
        return Judgement(tuple(_forgiven(output, apart.get(output.name)) for output in found.outputs))

    def _is_rounding(self, item: Answered, place: int, mine: Array, where: Array, allowed: Tolerance) -> bool:
        beside = self._beside.setdefault(id(item), _Beside(item, self._original))
        theirs = np.asarray(item.outputs.arrays[place])
        if theirs.dtype.kind in "iub" and mine.dtype == theirs.dtype:
            steps = _steps(theirs, mine)
            for others in (beside.exact(place), beside.moved(place)):
                moved = [_steps(theirs, other) for other in others]
                most = max((float(np.count_nonzero(each)) for each in moved), default=0.0)
                far = max([1, *(int(each.max(initial=0)) for each in moved)])
                self._moving |= {place} if most else set()
                enough = TIMES * most + MORE if place in self._moving else 0
                if int(where.sum()) <= enough and int(steps.max(initial=0)) <= far:
                    return True
        if _reached(beside.moved(place), mine, where, allowed):
            return True
        return theirs.dtype.kind == "f" and _as_sensitive(beside.stirred(place), theirs, mine)


class _Beside:
    """The original's answers beside one of its own, asked for when they are needed."""

    def __init__(self, item: Answered, original: Original) -> None:
        self._item, self._original = item, original
        self._exact: list[Sequence[Array]] | None = None
        self._moved: list[Sequence[Array]] | None = None
        self._stirred: list[Sequence[Array]] | None = None

    def exact(self, place: int) -> list[Array]:
        """In float64."""
        if self._exact is None:
            self._exact = _answers(self._original.predict([self._item.probe.arrays], double=True))
        return self._at(place, self._exact)

    def moved(self, place: int) -> list[Array]:
        """For inputs in the same last places; none where the inputs may lie on a step on purpose."""
        if self._moved is None:
            given, random = self._item.probe.arrays, np.random.default_rng(0)
            shaken = [_shaken(given, random) for _ in range(SHAKES)] if generic(given) else []
            self._moved = _answers(self._original.predict(shaken)) if shaken else []
        return self._at(place, self._moved)

    def stirred(self, place: int) -> list[Array]:
        """For inputs that are all alike, as silence is, with a little noise on them; none for other inputs."""
        if self._stirred is None:
            given, random = self._item.probe.arrays, np.random.default_rng(0)
            stirred = [_stirred(given, random) for _ in range(STIRS)] if _alike(given) else []
            self._stirred = _answers(self._original.predict(stirred)) if stirred else []
        return self._at(place, self._stirred)

    def _at(self, place: int, answers: Sequence[Sequence[Array]]) -> list[Array]:
        shape = np.shape(self._item.outputs.arrays[place])
        return [np.asarray(each[place]) for each in answers if place < len(each) and np.shape(each[place]) == shape]


def _answers(given: Sequence[Outputs | Failure]) -> list[Sequence[Array]]:
    return [answer.arrays for answer in given if isinstance(answer, Outputs)]


def _reached(near: Sequence[Array], mine: Array, where: Array, allowed: Tolerance) -> bool:
    """Whether each of these elements of an export is also given by the original for inputs in the same last places.

    They are few, or all of them are given together, as where rounding decides a branch.
    """
    together = any(bool(same_elements(array[where], mine[where], allowed).all()) for array in near)
    if together or not near or where.sum() > max(1, FEW * where.size):
        return together
    return bool(np.any([same_elements(array[where], mine[where], allowed) for array in near], axis=0).all())


def _as_sensitive(stirred: Sequence[Array], theirs: Array, mine: Array) -> bool:
    """Whether the original's answers to a little noise lie as far from each other as an export's from its own."""
    if len(stirred) < STIRS:
        return False
    spread = np.max(stirred, axis=0) - np.min(stirred, axis=0)
    return bool(np.isfinite(spread).all() and np.abs(theirs - mine).max() <= float(spread.max()))


def _apart(item: Answered, answer: Outputs, place: int, allowed: Sequence[Tolerance]) -> Array | None:
    """Which elements of an output differ; None where it is not an array of numbers in both, or nothing rounds on the way."""
    theirs, mine = np.asarray(item.outputs.arrays[place]), np.asarray(answer.arrays[place])
    if theirs.shape != mine.shape or theirs.dtype.kind not in "fiub" or mine.dtype.kind not in "fiub":
        return None
    if not any(array.dtype.kind == "f" for array in item.probe.arrays.values()):
        return None
    return ~same_elements(theirs, mine, allowed[place])


def _forgiven(output: OutputVerdict, where: Array | None) -> OutputVerdict:
    if where is None:
        return output
    note = f"{int(where.sum())} values lie beside a step"
    return replace(output, verdict="rounding", max_abs=0.0, max_rel=0.0, error=0.0, used=0.0, flips=0, note=note)


def _steps(theirs: Array, mine: Array) -> Array:
    """How many steps two integers of one type are apart; unsigned ones wrap around."""
    if theirs.dtype.kind == "b":
        return (theirs != mine).astype(np.int64)
    with np.errstate(over="ignore"):
        up, down = theirs - mine, mine - theirs
    return np.minimum(up, down) if theirs.dtype.kind == "u" else np.abs(up)


def generic(arrays: Arrays) -> bool:
    """Whether the floats are drawn at random, so that none lies on a step but by chance."""
    floats = [array.reshape(-1) for array in arrays.values() if array.dtype.kind == "f" and array.size]
    if not floats or not all(bool(np.isfinite(array).all()) for array in floats):
        return False
    values = np.concatenate([array.astype(np.float64) for array in floats])
    odd = values[values != np.round(values)]
    return len(np.unique(odd)) >= COMMON * len(values)


def _alike(arrays: Arrays) -> bool:
    """Whether nearly every value of every float input is the same number."""
    floats = [array for array in arrays.values() if array.dtype.kind == "f" and array.size > 1]
    return bool(floats) and all(
        bool(np.isfinite(array).all() and (array == np.median(array)).mean() >= COMMON) for array in floats
    )


def _stirred(arrays: Arrays, random: np.random.Generator) -> Arrays:
    return {
        name: np.asarray(array + NOISE * (1 + np.abs(array)) * random.standard_normal(array.shape), array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in arrays.items()
    }


def _shaken(arrays: Arrays, random: np.random.Generator) -> Arrays:
    return {name: _moved(array, random) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def _moved(array: Array, random: np.random.Generator) -> Array:
    return np.asarray(array + np.spacing(array) * random.integers(-UNITS, UNITS + 1, array.shape), array.dtype)
