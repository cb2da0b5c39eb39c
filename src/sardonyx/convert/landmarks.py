"""Inputs drawn around the values at which an estimator's answer turns, so that every branch of a tree can be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.signature import Array, Arrays, Signature, TensorSpec

# Input -> for each of its features, the telling values; none where the estimator shows none.
Landmarks = Mapping[str, Sequence[Sequence[Any]]]
ROWS = 48


def around(
    signature: Signature, example: Arrays, landmarks: Landmarks, random: np.random.Generator
) -> dict[str, Arrays]:
    """Batches at the landmarks, one float to either side of them, and between them; none without landmarks."""
    if not any(any(features) for features in landmarks.values()):
        return {}
    at = {spec.name: at_landmarks(spec, example[spec.name], landmarks, random) for spec in signature.inputs}
    return {
        "at the thresholds": at,
        "one float below the thresholds": {name: _stepped(array, -np.inf) for name, array in at.items()},
        "one float above the thresholds": {name: _stepped(array, np.inf) for name, array in at.items()},
        "between the thresholds": {name: _between(array, random) for name, array in at.items()},
    }


def at_landmarks(spec: TensorSpec, example: Array, landmarks: Landmarks, random: np.random.Generator) -> Array:
    """As many rows as fit the spec, with every feature at one of its landmarks; the example where it has none."""
    features = landmarks.get(spec.name) or []
    if not any(features) or example.ndim not in (1, 2):
        return example
    rows = ROWS if spec.shape and not isinstance(spec.shape[0], int) else example.shape[0]
    table = example.reshape(example.shape[0], -1)[random.integers(0, example.shape[0], rows)].copy()
    for column, values in enumerate(features[: table.shape[1]]):
        if values:
            table[:, column] = random.choice(np.asarray(values, dtype=table.dtype), rows)
    return table.reshape(rows, *example.shape[1:])


def _stepped(array: Array, towards: float) -> Array:
    return np.nextafter(array, np.asarray(towards, array.dtype)) if array.dtype.kind == "f" else array


def _between(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    other = random.permutation(array, axis=0)
    mixed = array + (other - array) * random.random(array.shape)
    # Equal neighbours would leave a value on its threshold.
    return (mixed + 1e-3 * (1 + np.abs(mixed)) * random.standard_normal(array.shape)).astype(array.dtype)
