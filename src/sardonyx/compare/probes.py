"""Inputs to compare on where the user gives none: several seeds, edge values and other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sardonyx.falsify.probe import Probe
from sardonyx.signature import Array, Signature, TensorSpec

SEEDS = 3
# Sizes for dynamic dimensions other than the batch; the first that the reference accepts is the ground for the rest.
LENGTHS = (64, 128, 256, 512, 32, 16, 8)

# What is done to every float input. Each reaches other branches, saturations and roundings.
EDGES: dict[str, Callable[[Array], Array]] = {
    "zeros": np.zeros_like,
    "negative": lambda x: -np.abs(x),
    "large": lambda x: x * np.asarray(50, x.dtype),
    "tiny": lambda x: x * np.asarray(1e-4, x.dtype),
    "positive": np.abs,
}


def grounds(signature: Signature, seed: int) -> Iterator[tuple[dict[str, int], Probe]]:
    """A plain probe for every size that dynamic dimensions may need, and the sizes, the likeliest first."""
    named, symbols = with_names(signature)
    seen = set[tuple[int, ...]]()
    for length in LENGTHS:
        sizes = {name: length for name, batch in symbols.items() if not batch}
        if (key := tuple(sizes.values())) not in seen:
            seen.add(key)
            yield sizes, Probe("a sample", named.sample(seed=seed, sizes=sizes))


def around(signature: Signature, sizes: dict[str, int], seed: int) -> list[Probe]:
    """More seeds, the edges and other sizes around a ground that the reference accepts."""
    named, symbols = with_names(signature)
    base = named.sample(seed=seed, sizes=sizes)
    found = [Probe(f"sample {index}", named.sample(seed=seed + index, sizes=sizes)) for index in range(1, SEEDS)]
    if any(array.dtype.kind == "f" for array in base.values()):
        found += [
            Probe(name, {key: change(array) if array.dtype.kind == "f" else array for key, array in base.items()})
            for name, change in EDGES.items()
        ]
    batches = {name: 3 for name, batch in symbols.items() if batch}
    longer = {name: size + size // 2 for name, size in sizes.items()}
    if batches:
        found.append(Probe("a batch of 3", named.sample(seed=seed, sizes={**sizes, **batches})))
    if longer:
        found.append(Probe("longer", named.sample(seed=seed, sizes=longer)))
    return found


def with_names(signature: Signature) -> tuple[Signature, dict[str, bool]]:
    """The signature with a name for every dynamic dimension, and for each name whether it counts examples."""
    symbols: dict[str, bool] = {}

    def named(spec: TensorSpec) -> TensorSpec:
        if spec.shape is None:
            return spec
        dims = tuple(f"{spec.name}_{axis}" if dim is None else dim for axis, dim in enumerate(spec.shape))
        for axis, dim in enumerate(dims):
            if isinstance(dim, str) and dim.isidentifier():
                symbols[dim] = symbols.get(dim, False) or axis == 0 or "batch" in dim.lower()
            elif isinstance(dim, str) and not any(mark in dim for mark in "+-*/"):
                symbols[dim] = symbols.get(dim, False) or axis == 0
        return replace(spec, shape=dims)

    return Signature(tuple(map(named, signature.inputs)), signature.outputs), symbols
