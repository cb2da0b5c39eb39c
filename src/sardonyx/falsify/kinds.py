"""The kinds of values that a type may take, each as a probe around the example."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from sardonyx.falsify.hints import Hints
from sardonyx.falsify.probe import Probe
from sardonyx.signature import Array, Arrays

# What is done to every float array of the example. Each reaches branches and roundings that the example alone may not.
FLOATS: dict[str, Callable[[Array], Array]] = {
    "sign flipped": lambda x: -x,
    "zeros": np.zeros_like,
    "all positive": np.abs,
    "all negative": lambda x: -np.abs(x),
    "large": lambda x: x * np.asarray(50, x.dtype),
    "tiny": lambda x: x * np.asarray(1e-4, x.dtype),
    "repeated": lambda x: np.broadcast_to(x.flat[0] if x.size else x, x.shape).copy(),
    "sorted": lambda x: np.sort(x, axis=None).reshape(x.shape),
    "reversed": lambda x: np.flip(x).copy(),
    "whole numbers": lambda x: np.round(x * np.asarray(3, x.dtype)),
    "halves": lambda x: np.round(x * np.asarray(3, x.dtype)) + np.asarray(0.5, x.dtype),
    "ones": np.ones_like,
    "one nonzero element": lambda x: _only(x, 0),
    "rows alike": lambda x: np.broadcast_to(x[:1], x.shape).copy() if x.ndim and len(x) else x,
}
# Values that few models are meant for. A float16 holds no more than 65504.
SOFT_FLOATS: dict[str, Callable[[Array], Array]] = {
    "one NaN": lambda x: _with_one(x, np.nan),
    "all NaN": lambda x: np.full_like(x, np.nan),
    "one infinity": lambda x: _with_one(x, np.inf),
    "one negative infinity": lambda x: _with_one(x, -np.inf),
    "very large": lambda x: x * np.asarray(6e3 if x.dtype == np.float16 else 1e5, x.dtype),
    "huge": lambda x: x * np.asarray(6e4 if x.dtype == np.float16 else 1e18, x.dtype),
    "subnormal": lambda x: x * np.asarray(np.finfo(x.dtype).tiny / 16, x.dtype),
}
BOOLEANS: dict[str, Callable[[Array], Array]] = {
    "booleans flipped": lambda x: ~x,
    "all true": np.ones_like,
    "all false": np.zeros_like,
}
# How many of the numbers that stand in the code or the graph are tried.
NUMBERS = 24
# Columns that are emptied one by one.
COLUMNS = 8


def value_kinds(example: Arrays, hints: Hints, random: np.random.Generator) -> Iterator[Probe]:
    """Every kind of value, first for all inputs of a type together, then for one input at a time."""
    yield from _together(example, FLOATS, "f")
    yield _redrawn("redrawn", example, random)
    yield _redrawn("redrawn widely", example, random, wide=True)
    yield from _together(example, BOOLEANS, "b")
    yield from at_numbers(example, hints, random)
    yield from _together(example, SOFT_FLOATS, "f", soft=True)
    yield from nan_columns(example)
    if any(array.dtype.kind == "f" for array in example.values()):
        holed = {name: _holed(array, 0.5, random) for name, array in example.items()}
        yield Probe("NaN in half of the places", holed, soft=True)
    yield from _one_at_a_time(example, random)
    if hints.allow_nan:
        yield from missing(example, random)


def missing(example: Arrays, random: np.random.Generator) -> Iterator[Probe]:
    """Holes where the model says that it takes them."""
    for name, share in (("some values missing", 0.2), ("all values missing", 1.0)):
        yield Probe(name, {key: _holed(array, share, random) for key, array in example.items()})


def nan_columns(example: Arrays) -> Iterator[Probe]:
    """One column of the last axis without values, the others as they are."""
    for name, array in example.items():
        if array.dtype.kind != "f" or array.ndim < 2:
            continue
        columns = np.linspace(0, array.shape[-1] - 1, min(COLUMNS, array.shape[-1])).round().astype(int)
        for column in dict.fromkeys(columns.tolist()):
            holed = array.copy()
            holed[..., column] = np.nan
            yield Probe(f"{name}: NaN in column {column}", {**example, name: holed}, soft=True)


def at_numbers(example: Arrays, hints: Hints, random: np.random.Generator) -> Iterator[Probe]:
    """The numbers that stand in the code and in the graph, and their neighbours, everywhere and in one place."""
    for name, array in example.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        for number in hints.numbers_for(name)[:NUMBERS]:
            close = [number, np.nextafter(number, np.inf), number * 1.01 + 0.01, -number, number - 1, number + 1]
            mixed = random.choice(np.asarray(close), array.shape).astype(array.dtype)
            keep = random.random(array.shape) < 0.5
            yield Probe(f"{name} around {number:g}", {**example, name: np.where(keep, array, mixed)})
            yield Probe(f"every {name} is {number:g}", {**example, name: np.full_like(array, number)})
            yield Probe(f"one {name} is {number:g}", {**example, name: _with_one(array, number, random)})


def redraw(array: Array, random: np.random.Generator, *, wide: bool = False) -> Array:
    """Fresh values with the array's spread; widely: of every magnitude and sign."""
    if array.dtype.kind == "f" and array.size:
        if wide:
            top = 3 if array.dtype == np.float16 else 5
            size = 10.0 ** random.uniform(-top, top, array.shape)
            return np.asarray(size * random.choice([-1, 1], array.shape)).astype(array.dtype)
        finite = array[np.isfinite(array)].astype(np.float64)
        center, spread = (finite.mean(), finite.std() or 1.0) if finite.size else (0.0, 1.0)
        return np.asarray(random.normal(center, spread, array.shape)).astype(array.dtype)
    if array.dtype.kind in "iu" and array.size:
        return np.asarray(random.integers(int(array.min()), int(array.max()) + 1, array.shape)).astype(array.dtype)
    if array.dtype.kind == "b":
        return np.asarray(random.random(array.shape) < 0.5)
    return np.asarray(random.permutation(array.reshape(-1))).reshape(array.shape)


def _together(
    example: Arrays, table: Mapping[str, Callable[[Array], Array]], kinds: str, *, soft: bool = False
) -> Iterator[Probe]:
    if not any(array.dtype.kind in kinds for array in example.values()):
        return
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for name, change in table.items():
            changed = {key: change(array) if array.dtype.kind in kinds else array for key, array in example.items()}
            yield Probe(name, changed, soft=soft)


def _one_at_a_time(example: Arrays, random: np.random.Generator) -> Iterator[Probe]:
    """Where there are several inputs: each of them alone at a few kinds, and two of the same shape alike."""
    if len(example) < 2:
        return
    for name, array in example.items():
        if array.dtype.kind == "f":
            for kind in ("zeros", "all negative", "large"):
                yield Probe(f"{name}: {kind}", {**example, name: FLOATS[kind](array)})
            yield Probe(f"{name}: one NaN", {**example, name: _with_one(array, np.nan)}, soft=True)
        yield Probe(f"{name}: redrawn", {**example, name: redraw(array, random)})
    names = list(example)
    for first, second in pairwise(names):
        one, two = example[first], example[second]
        if one.shape == two.shape and one.dtype == two.dtype:
            yield Probe(f"{second} equal to {first}", {**example, second: one})


def _redrawn(name: str, example: Arrays, random: np.random.Generator, *, wide: bool = False) -> Probe:
    return Probe(name, {key: redraw(array, random, wide=wide) for key, array in example.items()})


def _holed(array: Array, share: float, random: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    return np.where(random.random(array.shape) < share, np.asarray(np.nan, array.dtype), array)


def _only(array: Array, index: int) -> Array:
    found = np.zeros_like(array)
    if array.size:
        found.flat[index] = array.flat[index] if array.flat[index] else 1
    return found


def _with_one(array: Array, value: float, random: np.random.Generator | None = None) -> Array:
    """The array with one of its elements replaced: the middle one, or one drawn."""
    found = array.copy()
    if array.size:
        found.flat[array.size // 2 if random is None else random.integers(array.size)] = value
    return found


def shuffled_rows(example: Arrays, random: np.random.Generator, rowed: Sequence[str]) -> Arrays:
    """The inputs with their rows in another order, the same for all of them."""
    count = min((len(example[name]) for name in rowed), default=0)
    order = random.permutation(count)
    return {name: array[order] if name in rowed and len(array) == count else array for name, array in example.items()}
