"""Dynamic dimensions at other sizes, with rows that differ from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sardonyx.falsify.probe import Probe
from sardonyx.signature import Array, Arrays, Signature, TensorSpec

FIRST = (1, 2, 3, 5)
# Around powers of two, where kernels and code change their ways.
LATER = (4, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65)
# A size beyond this is not tried, whatever the code compares with: the inputs must stay small.
LARGEST = 4096
# Elements of all inputs together that a resized probe may have.
MOST_ELEMENTS = 4_000_000


def symbols(signature: Signature, example: Mapping[str, Array]) -> dict[str, int]:
    """The dynamic dimensions and the size that each has in the example."""
    return {
        str(dim): example[spec.name].shape[axis]
        for spec in signature.inputs
        for axis, dim in enumerate(spec.shape or ())
        if isinstance(dim, str)
    }


def first_sizes(signature: Signature, example: Arrays, random: np.random.Generator) -> Iterator[Probe]:
    """Every dynamic dimension at a few other sizes, one at a time, and all of them at once."""
    sizes = symbols(signature, example)
    for symbol, size in sizes.items():
        others = dict.fromkeys(n for n in (*FIRST, size + 1, 2 * size) if n != size and n > 0)
        yield from _resized_each(signature, example, sizes, symbol, list(others), random)
    if len(sizes) > 1:
        grown = {symbol: size + 1 + index for index, (symbol, size) in enumerate(sizes.items())}
        name = ", ".join(f"{key} = {value}" for key, value in grown.items())
        yield Probe(name, resize(signature, example, grown, random))


def later_sizes(
    signature: Signature, example: Arrays, telling: Sequence[int], random: np.random.Generator
) -> Iterator[Probe]:
    """Sizes around those that the code or the graph compares with, around powers of two, and none at all."""
    sizes = symbols(signature, example)
    around = [n + step for n in telling for step in (0, 1, -1) if 0 < n + step <= LARGEST]
    for symbol, size in sizes.items():
        tried = {*FIRST, size, size + 1, 2 * size}
        others = [n for n in dict.fromkeys((*around, *LATER)) if n not in tried]
        yield from _resized_each(signature, example, sizes, symbol, others, random)
    for symbol in sizes:
        yield Probe(f"{symbol} = 0", resize(signature, example, {**sizes, symbol: 0}, random), soft=True)


def resize(signature: Signature, example: Arrays, sizes: Mapping[str, int], random: np.random.Generator) -> Arrays:
    """The example with its dynamic dimensions at these sizes."""
    return {spec.name: _resize_one(spec, example[spec.name], sizes, random) for spec in signature.inputs}


def _resized_each(
    signature: Signature,
    example: Arrays,
    sizes: Mapping[str, int],
    symbol: str,
    others: Sequence[int],
    random: np.random.Generator,
) -> Iterator[Probe]:
    elements = sum(array.size for array in example.values())
    for other in others:
        if elements * other <= MOST_ELEMENTS * max(1, sizes[symbol]):
            yield Probe(f"{symbol} = {other}", resize(signature, example, {**sizes, symbol: other}, random))


def _resize_one(spec: TensorSpec, array: Array, sizes: Mapping[str, int], random: np.random.Generator) -> Array:
    """The array with its dynamic dimensions at other sizes, filled with its own slices in random order, floats a little off."""
    before = array.shape
    for axis, dim in enumerate(spec.shape or ()):
        if isinstance(dim, str) and array.shape[axis] != sizes.get(dim, array.shape[axis]):
            if not array.shape[axis]:
                return np.zeros(
                    [sizes.get(str(d), n) for d, n in zip(spec.shape or (), before, strict=True)], array.dtype
                )
            array = np.take(array, random.integers(0, array.shape[axis], sizes[dim]), axis=axis)
    if array.shape == before or array.dtype.kind != "f" or not array.size:
        return array
    finite = array[np.isfinite(array)]
    spread = float(finite.astype(np.float64).std()) if finite.size else 1.0
    return np.asarray(array + random.normal(0.0, 0.3 * (spread or 1.0), array.shape)).astype(array.dtype)
