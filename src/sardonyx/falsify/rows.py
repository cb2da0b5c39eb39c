"""Rows of a table whose columns are inputs: which inputs share the rows, and batches that change some of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sardonyx.signature import Array, Arrays, Signature, TensorSpec


def batch_of(signature: Signature) -> int | str | None:
    """The first dimension of the first input that has one: what counts the rows."""
    return next((spec.shape[0] for spec in signature.inputs if spec.shape), None)


def is_table(spec: TensorSpec, batch: int | str | None) -> bool:
    """Whether the input is a column or a table of rows."""
    return bool(spec.shape) and len(spec.shape or ()) <= 2 and (spec.shape or (None,))[0] == batch


def draw(signature: Signature, example: Arrays, rows: int, random: np.random.Generator) -> Arrays:
    """So many rows of the example, drawn at random; inputs that do not count rows stay as they are."""
    batch = batch_of(signature)
    orders: dict[int, Array] = {}  # inputs with equally many rows keep theirs together
    found: Arrays = {}
    for spec in signature.inputs:
        array = example[spec.name]
        if is_table(spec, batch) and len(array):
            array = array[orders.setdefault(len(array), random.integers(0, len(array), rows))]
        found[spec.name] = array
    return found


def beside(signature: Signature, example: Arrays, changed: Mapping[str, Array], random: np.random.Generator) -> Arrays:
    """The changed inputs, which have equally many rows, beside as many rows of the others; cut to a batch that is fixed."""
    rows = len(next(iter(changed.values())))
    return fixed(signature, {**draw(signature, example, rows, random), **changed}, random)


def fixed(signature: Signature, arrays: Arrays, random: np.random.Generator) -> Arrays:
    """The same rows, or as many of them as the signature allows where its batch is a number."""
    batch = batch_of(signature)
    if not isinstance(batch, int):
        return arrays
    return draw(signature, arrays, batch, random)
