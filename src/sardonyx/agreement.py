"""The one place that decides whether two answers are the same: `equal`, `rounding` or `mismatch` for every output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sardonyx.signature import Array
from sardonyx.tolerance import EXACT as EXACT
from sardonyx.tolerance import Tolerance as Tolerance

Kind = Literal["equal", "rounding", "mismatch"]
RANK: dict[Kind, int] = {"equal": 0, "rounding": 1, "mismatch": 2}

# Elements looked at in one go: a comparison never holds more than a few float64 copies of this many.
CHUNK = 1 << 20


# Values that show a spread, and the share of their size below which they are all the same but for rounding.
SEVERAL, EQUAL = 4, 1e-5


@dataclass(frozen=True)
class OutputVerdict:
    """How one output compares. `error` and `tolerance` are those of the element that used most of its tolerance, `used` is their
    ratio; `max_abs` and `max_rel` are the largest of all elements.

    `weak` is the tolerance as a share of the output's own size: above a few percent, little would be noticed. Differences of
    strings have no size: `max_abs` and `max_rel` are None there.
    """

    name: str
    verdict: Kind
    max_abs: float | None = 0.0
    max_rel: float | None = 0.0
    tolerance: float = 0.0
    used: float = 0.0
    flips: int = 0
    note: str = ""
    weak: float = np.inf
    error: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        sized = self.max_abs is not None
        return {
            "name": self.name, "verdict": self.verdict, "error": self.error if sized else None, "tolerance": self.tolerance,
            "used": self.share_used if sized else None, "max_abs": self.max_abs, "max_rel": self.max_rel,
            "flips": self.flips, "note": self.note,
        }  # fmt: skip

    @property
    def share_used(self) -> float:
        """The error as a share of the tolerance: `used`, unless something else than an element decided the verdict."""
        if self.tolerance:
            return self.error / self.tolerance
        return np.inf if self.error else 0.0


@dataclass(frozen=True)
class Judgement:
    """The verdicts of all outputs."""

    outputs: tuple[OutputVerdict, ...]

    @property
    def verdict(self) -> Kind:
        return worst([output.verdict for output in self.outputs])

    @property
    def used(self) -> float:
        """The largest share of a tolerance that any output used; above 1 is a mismatch."""
        return max((output.used for output in self.outputs), default=0.0)

    def merge(self, other: Judgement) -> Judgement:
        """The worse of two verdicts for every output, with the largest errors of both and all flips."""
        found = {output.name: output for output in self.outputs}
        for output in other.outputs:
            found[output.name] = _merge(found[output.name], output) if output.name in found else output
        return Judgement(tuple(found.values()))


def judge(
    reference: Sequence[Any],
    candidate: Sequence[Any],
    tolerance: Tolerance | Sequence[Tolerance] = EXACT,
    *,
    names: Sequence[str] = (),
    same_shape: bool = True,
) -> Judgement:
    """A verdict for every output of the reference.

    Outputs are arrays, or sequences and maps, which are flattened first (`flatten`); a sequence of tolerances has one for
    every flattened output. NaN and infinities must be at the same places; integers, booleans and strings must be exactly
    the same. With `same_shape=False` dimensions of size 1 do not count, as where a framework squeezes its answers.
    """
    expected, given = flatten(reference, names), flatten(candidate, names)
    allowed = [tolerance] * len(expected) if isinstance(tolerance, Tolerance) else list(tolerance)
    verdicts = []
    for index, (name, array) in enumerate(expected):
        if index >= len(given):
            verdicts.append(_mismatch(name, "the candidate has no such output"))
        else:
            verdicts.append(_judge_output(name, array, given[index][1], allowed[index], same_shape))
    return Judgement(tuple(verdicts))


def same_elements(reference: Array, candidate: Array, allowed: Tolerance) -> Array:
    """Of every element, whether the candidate's is the same within the tolerance; integers and booleans to the last bit."""
    if not is_float(reference.dtype):
        return np.asarray(reference == candidate)
    theirs, mine = wide(reference), wide(candidate)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(theirs - mine) <= allowed.at(np.where(np.isfinite(theirs), theirs, 0.0))
    return near | (theirs == mine) | (np.isnan(theirs) & np.isnan(mine))


def worst(kinds: Sequence[Kind]) -> Kind:
    """The worst of several verdicts; `equal` if there is none."""
    return max(kinds, key=RANK.__getitem__, default="equal")


def flatten(values: Sequence[Any], names: Sequence[str] = ()) -> list[tuple[str, Array]]:
    """Outputs as named arrays. A sequence gives `name[0]`, ...; the maps of a classifier become one array, a row per map.

    Strings are made numpy's own, complex numbers become pairs.
    """
    labels = [*names, *(f"output {index}" for index in range(len(names), len(values)))]
    return [leaf for name, value in zip(labels, values, strict=False) for leaf in _leaves(name, value)]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether rounding can touch the type. numpy itself does not count bfloat16 and float8 as floats."""
    return dtype.kind in "fc" or "float" in dtype.name


def wide(array: Array) -> Array:
    """The numbers as float64."""
    return array.astype(np.float64, copy=False)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
        yield from _table(name, value)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(f"{name}[{index}]", item)
    else:
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            array = array.astype(str)
        elif array.dtype.kind == "c":
            array = np.ascontiguousarray(array)[..., None].view(array.real.dtype)
        yield name, array


def _table(name: str, rows: Sequence[Mapping[Any, Any]]) -> Iterator[tuple[str, Array]]:
    """ZipMap's answer, one map per example, as the array that it was made from."""
    keys = list(rows[0])
    if any(set(row) != set(keys) for row in rows):
        for index, row in enumerate(rows):
            yield from _leaves(f"{name}[{index}]", list(row.values()))
        return
    keys.sort(key=lambda key: (isinstance(key, str), key))
    yield name, np.array([[row[key] for key in keys] for row in rows])


def _judge_output(name: str, reference: Array, candidate: Array, allowed: Tolerance, same_shape: bool) -> OutputVerdict:
    note = ""
    if reference.shape != candidate.shape:
        shapes = f"shape {list(candidate.shape)} where the reference has {list(reference.shape)}"
        if same_shape or _squeezed(reference.shape) != _squeezed(candidate.shape):
            return _mismatch(name, shapes)
        note, candidate = shapes, candidate.reshape(reference.shape)
    if reference.dtype != candidate.dtype and "U" not in (reference.dtype.kind, candidate.dtype.kind):
        note = note or f"type {candidate.dtype} where the reference has {reference.dtype}"
    verdict = _judge_values(name, reference, candidate, allowed)
    return replace(verdict, note=verdict.note or note)


def _judge_values(name: str, reference: Array, candidate: Array, allowed: Tolerance) -> OutputVerdict:
    if "U" in (reference.dtype.kind, candidate.dtype.kind):
        differing = int(np.count_nonzero(reference.astype(str) != candidate.astype(str)))
        return _mismatch(name, f"{differing} strings differ") if differing else OutputVerdict(name, "equal", None, None)
    if not is_float(reference.dtype) and not is_float(candidate.dtype):
        return _judge_integers(name, reference, candidate)
    return _judge_floats(name, reference, candidate, allowed)


def _judge_integers(name: str, reference: Array, candidate: Array) -> OutputVerdict:
    differing = int(np.count_nonzero(reference != candidate))
    if not differing:
        return OutputVerdict(name, "equal")
    error = np.abs(reference.astype(np.float64) - candidate.astype(np.float64))
    scale = np.maximum(np.abs(reference.astype(np.float64)), 1)
    note = f"{differing} of {reference.size} integers differ"
    worst = float(error.max())
    return OutputVerdict(name, "mismatch", worst, float((error / scale).max()), 0.0, np.inf, note=note, error=worst)


def _judge_floats(name: str, reference: Array, candidate: Array, allowed: Tolerance) -> OutputVerdict:
    found = OutputVerdict(name, "equal")
    for start in range(0, reference.size, CHUNK):
        part = slice(start, start + CHUNK)
        theirs, mine = (wide(array.reshape(-1)[part]) for array in (reference, candidate))
        found = _merge(found, _judge_chunk(name, theirs, mine, allowed, start))
        if found.note and np.isinf(found.used):
            return found
    found = replace(found, weak=_share(reference, allowed))
    if found.verdict == "equal" or not looks_like_scores(reference):
        return found
    return replace(found, flips=_flips(wide(reference), wide(candidate)))


def _judge_chunk(name: str, reference: Array, candidate: Array, allowed: Tolerance, start: int) -> OutputVerdict:
    same = (reference == candidate) | (np.isnan(reference) & np.isnan(candidate))
    if same.all():
        return OutputVerdict(name, "equal")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(same, 0.0, np.abs(reference - candidate))
        limit = allowed.at(np.where(np.isfinite(reference), reference, 0.0), start)
        used = np.where(same, 0.0, error / limit)
        relative = np.where((reference == 0) | same, 0.0, error / np.abs(reference))
    broken = ~same & ~(np.isfinite(reference) & np.isfinite(candidate))
    if broken.any():
        at = int(np.argmax(broken))
        first = f"the first is {candidate[at]:g} where the reference has {reference[at]:g}"
        note = f"{int(broken.sum())} NaN or infinite values are elsewhere; {first}"
        return OutputVerdict(name, "mismatch", np.inf, np.inf, float(limit[at]), np.inf, note=note, error=np.inf)
    at = int(np.argmax(used))
    kind: Kind = "mismatch" if used[at] > 1 else "rounding"
    return OutputVerdict(
        name, kind, float(error.max()), float(relative.max()), float(limit[at]), float(used[at]), error=float(error[at])
    )


def _share(reference: Array, allowed: Tolerance) -> float:
    """The tolerance as a share of the output's size."""
    size = extent(reference)
    return float(allowed.at(size) / size) if size else np.inf


def extent(array: Array) -> float:
    """The size of an output's finite values: their root mean square, without what several of them have in common.

    A price of five million that varies by a hundred thousand is of the size of the latter.
    """
    flat = array.reshape(-1)
    count, mean, squares, around = 0, 0.0, 0.0, 0.0
    for start in range(0, flat.size, CHUNK):
        piece = flat[start : start + CHUNK]
        finite = wide(piece[np.isfinite(piece)])
        if not finite.size:
            continue
        middle = float(finite.mean())
        apart = middle - mean
        total = count + finite.size
        squares += float(np.sum(finite**2))
        around += float(np.sum((finite - middle) ** 2)) + apart**2 * (count * finite.size / total)
        mean += apart * (finite.size / total)
        count = total
    size = float(np.sqrt(squares / count)) if count else 0.0
    spread = 3 * float(np.sqrt(around / count)) if count >= SEVERAL else 0.0
    return min(size, spread) if spread > EQUAL * size else size


def looks_like_scores(array: Array) -> bool:
    """Whether the largest value of the last axis is an answer: one row per example, or rows that sum to one."""
    if array.ndim < 2 or array.shape[-1] < 2 or not array.size:
        return False
    return array.ndim == 2 or sums_to_one(array)


def sums_to_one(array: Array) -> bool:
    """Whether the rows are shares of a whole, such as probabilities."""
    if array.ndim < 1 or array.shape[-1] < 2 or not array.size or not is_float(array.dtype):
        return False
    return bool(array.min() >= 0 and np.abs(wide(array.sum(-1)) - 1).max() < 1e-2)


def _flips(reference: Array, candidate: Array) -> int:
    """Rows whose best class changes. Where every element is within its tolerance, such a row was a tie."""
    return int(np.count_nonzero(reference.argmax(-1) != candidate.argmax(-1)))


def _merge(one: OutputVerdict, two: OutputVerdict) -> OutputVerdict:
    first, second = sorted((one, two), key=lambda item: (RANK[item.verdict], item.used), reverse=True)
    larger = [
        None if a is None or b is None else max(a, b)
        for a, b in ((one.max_abs, two.max_abs), (one.max_rel, two.max_rel))
    ]
    return replace(
        first, max_abs=larger[0], max_rel=larger[1], flips=one.flips + two.flips, note=first.note or second.note,
        weak=min(one.weak, two.weak),
    )  # fmt: skip


def _mismatch(name: str, note: str) -> OutputVerdict:
    return OutputVerdict(name, "mismatch", None, None, 0.0, np.inf, note=note)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


# Roundings of the largest value that are allowed where no noise floor was measured. Real models of a hundred layers differ by
# up to 4 of them between a batch and single runs, and by up to 120 between two orders of the same graph.
ROUNDINGS = 1024


def for_rounding(reference: Sequence[Any]) -> list[Tolerance]:
    """The tolerance of every flattened output where no noise floor was measured: 1024 roundings of its largest value.

    In float16 and smaller types this would be half of the value, so there half of the digits must agree: the square root of
    the unit roundoff. An output in float64 is often made of float32 numbers, so it counts as one.
    """
    found = []
    for _, array in flatten(reference):
        if not is_float(array.dtype):
            found.append(EXACT)
            continue
        unit = max(unit_roundoff(array.dtype), unit_roundoff(np.dtype(np.float32)))
        found.append(_share_of(array, min(ROUNDINGS * unit, unit**0.5)))
    return found


def for_share(reference: Sequence[Any], share: float) -> list[Tolerance]:
    """The tolerance of every flattened output that allows this share of its largest value, and rounding besides."""
    arrays = [array for _, array in flatten(reference)]
    asked = [_share_of(array, share) if is_float(array.dtype) else EXACT for array in arrays]
    return [Tolerance(one.absolute + two.absolute) for one, two in zip(asked, for_rounding(reference), strict=True)]


def unit_roundoff(dtype: np.dtype[Any]) -> float:
    """Half the gap between 1 and the next number of a float type."""
    if dtype.kind in "fc":
        return float(np.finfo(dtype).eps) / 2
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps) / 2


def _share_of(array: Array, share: float) -> Tolerance:
    values = np.abs(wide(array))
    return Tolerance(share * float(np.max(values, initial=0.0, where=np.isfinite(values))))
