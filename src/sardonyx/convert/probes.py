"""Inputs that tell a right export from a wrong one: other sizes, other branches, edge values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.convert import landmarks
from sardonyx.signature import Arrays, Signature, TensorSpec

Array = np.ndarray[Any, Any]

# What is done to every float array of the example. Each reaches branches that the example alone may not.
FLOAT_EDGES: dict[str, Callable[[Array], Array]] = {
    "sign flipped": lambda x: -x,
    "zeros": np.zeros_like,
    "all positive": np.abs,
    "all negative": lambda x: -np.abs(x),
    "large": lambda x: x * np.asarray(50, x.dtype),
    "tiny": lambda x: x * np.asarray(1e-4, x.dtype),
    "repeated": lambda x: np.broadcast_to(x.flat[0] if x.size else x, x.shape).copy(),
    "sorted": lambda x: np.sort(x, axis=None).reshape(x.shape),
    "reversed": lambda x: np.flip(x).copy(),
}
# Integers keep to the range that the example shows: beyond it they may be indices into nothing.
INTEGER_EDGES: dict[str, Callable[[Array], Array]] = {
    "smallest integers": lambda x: np.full_like(x, x.min() if x.size else 0),
    "largest integers": lambda x: np.full_like(x, x.max() if x.size else 0),
    "reversed": lambda x: np.flip(x).copy(),
    "sorted": lambda x: np.sort(x, axis=None).reshape(x.shape),
}
OTHER_SIZES = (1, 2, 3, 5)


@dataclass(frozen=True)
class Probe:
    """One set of inputs, and in words what is special about it."""

    name: str
    arrays: Arrays
    on_edge: bool = False  # its values lie on thresholds, where one unit in the last place changes the answer


def probes(
    signature: Signature, example: Arrays, description: Mapping[str, Any] | None = None, *, seed: int = 0
) -> list[Probe]:
    """The example, then other sizes of every dynamic dimension, then other values. The example always comes first.

    An estimator's description may name its `landmarks`, and say with `allow_nan` that it takes missing values.
    """
    description = description or {}
    random = np.random.default_rng(seed)
    found = [
        Probe("the example", example),
        *_resized(signature, example, random),
        *_edges(example),
        _redrawn(example, random),
    ]
    near = landmarks.around(signature, example, description.get("landmarks") or {}, random)
    found += [Probe(name, arrays, on_edge=name != "between the thresholds") for name, arrays in near.items()]
    if description.get("allow_nan"):
        found += _missing(near.get("between the thresholds", example), random)
    return found


def symbols(signature: Signature, example: Mapping[str, Array]) -> dict[str, int]:
    """The dynamic dimensions and the size that each has in the example."""
    return {
        str(dim): example[spec.name].shape[axis]
        for spec in signature.inputs
        for axis, dim in enumerate(spec.shape or ())
        if isinstance(dim, str)
    }


def _resized(signature: Signature, example: Arrays, random: np.random.Generator) -> Iterator[Probe]:
    """Every dynamic dimension at a few other sizes, one at a time, and all of them at once."""
    sizes = symbols(signature, example)
    for symbol, size in sizes.items():
        for other in dict.fromkeys(n for n in (*OTHER_SIZES, size + 1, 2 * size) if n != size):
            yield Probe(f"{symbol} = {other}", _resize(signature, example, {**sizes, symbol: other}, random))
    if len(sizes) > 1:
        grown = {symbol: size + 1 + index for index, (symbol, size) in enumerate(sizes.items())}
        yield Probe(", ".join(f"{k} = {v}" for k, v in grown.items()), _resize(signature, example, grown, random))


def _resize(signature: Signature, example: Arrays, sizes: Mapping[str, int], random: np.random.Generator) -> Arrays:
    return {spec.name: _resize_one(spec, example[spec.name], sizes, random) for spec in signature.inputs}


def _resize_one(spec: TensorSpec, array: Array, sizes: Mapping[str, int], random: np.random.Generator) -> Array:
    """The array with its dynamic dimensions at other sizes, filled with its own slices in random order."""
    for axis, dim in enumerate(spec.shape or ()):
        if isinstance(dim, str) and array.shape[axis] != sizes[dim]:
            array = np.take(array, random.integers(0, max(1, array.shape[axis]), sizes[dim]), axis=axis)
    return array


def _edges(example: Arrays) -> Iterator[Probe]:
    for table, kinds in ((FLOAT_EDGES, "f"), (INTEGER_EDGES, "iu")):
        if not any(array.dtype.kind in kinds for array in example.values()):
            continue
        for name, change in table.items():
            yield Probe(
                name, {key: change(array) if array.dtype.kind in kinds else array for key, array in example.items()}
            )
    if any(array.dtype.kind == "b" for array in example.values()):
        yield Probe(
            "booleans flipped", {key: ~array if array.dtype.kind == "b" else array for key, array in example.items()}
        )


def _redrawn(example: Arrays, random: np.random.Generator) -> Probe:
    """Fresh values with the example's spread, so that nothing about its exact values is special."""
    return Probe("redrawn", {name: _redraw(array, random) for name, array in example.items()})


def _redraw(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind == "f" and array.size:
        finite = array[np.isfinite(array)].astype(np.float64)
        center, spread = (finite.mean(), finite.std() or 1.0) if finite.size else (0.0, 1.0)
        return np.asarray(random.normal(center, spread, array.shape)).astype(array.dtype)
    if array.dtype.kind in "iu" and array.size:
        return np.asarray(random.integers(array.min(), array.max() + 1, array.shape)).astype(array.dtype)
    return np.asarray(random.permutation(array.reshape(-1))).reshape(array.shape)


def _missing(example: Arrays, random: np.random.Generator) -> Iterator[Probe]:
    """Holes where the estimator says that it takes them."""
    for name, share in (("some values missing", 0.2), ("all values missing", 1.0)):
        holed = {}
        for key, array in example.items():
            holes = random.random(array.shape) < share
            holed[key] = np.where(holes, np.asarray(np.nan, array.dtype), array) if array.dtype.kind == "f" else array
        yield Probe(name, holed)
