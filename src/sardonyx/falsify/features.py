"""Rows of numbers that tell two estimators apart: every leaf, both sides of every threshold, holes, and values that round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.falsify.rows import batch_of, draw, fixed, is_table
from sardonyx.signature import Array, Arrays, Signature, TensorSpec

Random = np.random.Generator

ROWS = 128  # of every kind that does not go through something
EVERY = 2000  # rows of a kind that goes through every column or category
SCALES = (1e3, 1e6, 1e9)  # of an estimator that was fitted to small numbers
# Numbers that are no category, by the known ones. Encoders and boosters differ in what they make of them.
STRANGE_CODES: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "unknown category codes": lambda codes: [max(codes) + 1, max(codes) + 2, max(codes) + 1000, 1e6],
    "negative category codes": lambda codes: [min(codes) - 1, -1, -2, -0.5],
    "category codes with fractions": lambda codes: [code + part for code in codes for part in (0.25, 0.5, 0.999)],
}
# Up to so many columns, every combination of missing values is a row.
COMBINED = 7


@dataclass(frozen=True)
class Column:
    """One feature: the input that holds it, its place there, and what the estimator says about it."""

    input: str
    place: int
    landmarks: tuple[float, ...] = ()
    categories: tuple[float, ...] = ()
    takes_missing: bool = False


def around(
    signature: Signature, example: Arrays, description: Mapping[str, Any], random: np.random.Generator
) -> dict[str, Arrays]:
    """Named batches in the types of the signature; none where no input is a table of numbers.

    The description may have, for every input, `landmarks` (telling values of each column), `categories` (known numbers of
    each column), `missing` (columns that take NaN; all of them where `allow_nan` is true and it is not there) and
    `infinite` (whether infinities are taken); and `paths`, rows that reach the leaves and splits of trees:
    {"rows": {input: table}, "edges": {"rows": {input: table}, "cells": [[input, column], ...]}}.
    Each kind of row is one batch, because an original that refuses one row of a batch refuses the batch.
    """
    columns = columns_of(signature, example, description)
    if not columns:
        return {}
    base = _base(signature, example, columns, description, random)
    kinds = {
        **_paths(signature, example, description),
        **_near(base, columns, random),
        **_rounding(base, columns, random),
        **_codes(base, columns, random),
        **_missing(base, columns, description, random),
    }
    return {name: fixed(signature, arrays, random) for name, arrays in kinds.items()}


def columns_of(signature: Signature, example: Arrays, description: Mapping[str, Any]) -> list[Column]:
    """The features in the tables of numbers, in order."""
    batch = batch_of(signature)
    tables = [spec for spec in signature.inputs if is_table(spec, batch) and spec.numpy_dtype.kind in "fiu"]
    return [column for spec in tables for column in _columns(spec, example[spec.name], description)]


def _columns(spec: TensorSpec, example: Array, description: Mapping[str, Any]) -> Iterator[Column]:
    width = int(np.prod(example.shape[1:], dtype=int))
    landmarks = _of(description, "landmarks", spec.name)
    categories = _of(description, "categories", spec.name)
    holes = (description.get("missing") or {}).get(spec.name)
    for place in range(width):
        missing = description.get("allow_nan", False) if holes is None else place in holes
        yield Column(
            spec.name,
            place,
            tuple(landmarks[place]) if place < len(landmarks) else (),
            tuple(categories[place]) if place < len(categories) else (),
            bool(missing) and spec.numpy_dtype.kind == "f",
        )


def _of(description: Mapping[str, Any], key: str, name: str) -> Sequence[Sequence[Any]]:
    return (description.get(key) or {}).get(name) or []


def _base(
    signature: Signature, example: Arrays, columns: Sequence[Column], description: Mapping[str, Any], random: Random
) -> Arrays:
    """Rows to change: half of those that reach leaves, where there are such, and values between the landmarks."""
    base = {name: array.copy() for name, array in draw(signature, example, ROWS, random).items()}
    for column in columns:
        if column.categories:
            _put(base, column, slice(None), random.choice(column.categories, ROWS))
        elif column.landmarks:
            _put(base, column, slice(None), _between(column.landmarks, ROWS, random))
    rows = _paths(signature, example, description).get("a row for every leaf")
    if rows is None:
        return base
    some = draw(signature, rows, ROWS // 2, random)
    return {
        name: np.concatenate([some[name], array[ROWS // 2 :]]) if name in some else array
        for name, array in base.items()
    }


def _between(landmarks: Sequence[float], rows: int, random: Random) -> Array:
    """Numbers between two landmarks, and a little beyond the first and the last."""
    one, two = random.choice(landmarks, rows), random.choice(landmarks, rows)
    mixed = one + (two - one) * random.uniform(-0.1, 1.1, rows)
    return mixed + 1e-3 * (1 + np.abs(mixed)) * random.standard_normal(rows)


def _paths(signature: Signature, example: Arrays, description: Mapping[str, Any]) -> dict[str, Arrays]:
    """The rows that the estimator itself names: one for every leaf, and at the threshold of every split."""
    paths = description.get("paths") or {}
    found: dict[str, Arrays] = {}
    if paths.get("rows"):
        found["a row for every leaf"] = _tables(signature, example, paths["rows"])
    edges = paths.get("edges") or {}
    if edges.get("rows"):
        at = _tables(signature, example, edges["rows"])
        found["at the threshold of every split"] = at
        for name, towards, dtype in STEPS:
            found[f"{name} the threshold of every split"] = _stepped(at, edges["cells"], towards, dtype)
        if description.get("allow_nan"):
            found["missing at every split"] = _holed(at, edges["cells"])
    return {name: arrays for name, arrays in found.items() if not _same(arrays, found.get(EDGES)) or name == EDGES}


LARGEST = 1e20  # a billion times as much is still a float32
EDGES = "at the threshold of every split"
STEPS = (
    ("one float64 below", -np.inf, np.float64),
    ("one float64 above", np.inf, np.float64),
    ("one float32 below", -np.inf, np.float32),
    ("one float32 above", np.inf, np.float32),
)


def _same(arrays: Arrays, others: Arrays | None) -> bool:
    """Whether nothing was changed: float32 has no float64 beside its numbers."""
    return others is not None and all(
        np.array_equal(array, others[name], equal_nan=array.dtype.kind == "f") for name, array in arrays.items()
    )


def _tables(signature: Signature, example: Arrays, rows: Mapping[str, Any]) -> Arrays:
    """The rows of a description as arrays of the signature's types; inputs that it leaves out keep their first row."""
    count = max(len(table) for table in rows.values())
    found: Arrays = {}
    for spec in signature.inputs:
        held = example[spec.name]
        if spec.name in rows:
            table = np.array(rows[spec.name], dtype=object if spec.dtype == "string" else np.float64)
            if (
                table.dtype != object
            ):  # LightGBM writes "is missing" as a threshold of 1e300, which no real value passes
                table = np.clip(table, -LARGEST, LARGEST)
            found[spec.name] = _cast(table.reshape(count, *held.shape[1:]), spec.numpy_dtype)
        elif is_table(spec, batch_of(signature)) and len(held):
            found[spec.name] = np.repeat(held[:1], count, axis=0)
        else:
            found[spec.name] = held
    return found


def _stepped(at: Arrays, cells: Sequence[tuple[str, int]], towards: float, dtype: type) -> Arrays:
    """The rows with one cell of each moved by the smallest step of a float type."""
    moved = {name: array.copy() for name, array in at.items()}
    for row, (name, place) in enumerate(cells):
        flat = moved[name].reshape(len(moved[name]), -1)
        if flat.dtype.kind != "f":
            continue
        value = flat[row, place]
        if np.dtype(dtype).itemsize > flat.dtype.itemsize or abs(value) >= LARGEST:
            continue
        step = np.nextafter(dtype(value), dtype(towards))
        # A float64 that lies between two float32 already has one of them as its neighbour.
        near = dtype(value)
        flat[row, place] = near if dtype is np.float32 and (near > value if towards > 0 else near < value) else step
    return moved


def _holed(at: Arrays, cells: Sequence[tuple[str, int]]) -> Arrays:
    holed = {name: array.copy() for name, array in at.items()}
    for row, (name, place) in enumerate(cells):
        flat = holed[name].reshape(len(holed[name]), -1)
        if flat.dtype.kind == "f":
            flat[row, place] = np.nan
    return holed


def _near(base: Arrays, columns: Sequence[Column], random: Random) -> dict[str, Arrays]:
    """All columns at their landmarks, beside them by one step of their type, and between them."""
    if not any(column.landmarks for column in columns):
        return {}
    at = {name: array.copy() for name, array in base.items()}
    for column in columns:
        if column.landmarks:
            _put(at, column, slice(None), random.choice(column.landmarks, ROWS))
    floats = [name for name, array in at.items() if array.dtype.kind == "f"]
    below, above = (
        {**at, **{name: np.nextafter(at[name], np.asarray(end, at[name].dtype)) for name in floats}}
        for end in (-np.inf, np.inf)
    )
    return {
        "at the thresholds": at,
        "one float below the thresholds": below,
        "one float above the thresholds": above,
        "between the thresholds": base,
    }


def _rounding(base: Arrays, columns: Sequence[Column], random: Random) -> dict[str, Arrays]:
    """The same rows finer than float32, whole, larger, constant and at zero."""
    floats = {name for name in (column.input for column in columns) if base[name].dtype.kind == "f"}
    if not floats:
        return {}

    def changed(change: Any) -> Arrays:
        return {
            name: _cast(change(array.astype(np.float64)), array.dtype) if name in floats else array
            for name, array in base.items()
        }

    found = {
        "whole numbers": changed(np.round),
        "zeros of both signs": changed(lambda x: _with_zeros(x, random)),
        "all zero": changed(np.zeros_like),
        "constant rows": changed(_constant_rows),
        "sign flipped": changed(np.negative),
    }
    for scale in SCALES:
        found[f"times {scale:g}"] = changed(lambda x, scale=scale: x * scale)
        found[f"plus {scale:g}"] = changed(lambda x, scale=scale: x + scale)
    if any(base[name].dtype == np.float64 for name in floats):
        # A part in 1e9 is lost in float32, which holds one in 1.7e7.
        found["finer than float32"] = changed(lambda x: x * (1 + 1e-9 * random.standard_normal(x.shape)))
    return found


def _with_zeros(values: Array, random: Random) -> Array:
    zeros = np.copysign(0.0, random.standard_normal(values.shape))
    return np.where(random.random(values.shape) < 0.5, zeros, values)


def _constant_rows(values: Array) -> Array:
    flat = values.reshape(len(values), -1)
    return np.broadcast_to(flat[:, :1], flat.shape).reshape(values.shape)


def _codes(base: Arrays, columns: Sequence[Column], random: Random) -> dict[str, Arrays]:
    """Every known category, and numbers that are none."""
    coded = [column for column in columns if column.categories]
    if not coded:
        return {}
    rows = min(EVERY, max(len(column.categories) for column in coded))
    every = {name: array[np.arange(rows) % len(array)] for name, array in base.items()}
    for column in coded:
        order = random.permutation(column.categories)
        _put(every, column, slice(None), order[np.arange(rows) % len(order)])
    found = {"every category code": every}
    for name, choices in STRANGE_CODES.items():
        strange = {key: array.copy() for key, array in base.items()}
        for column in coded:
            _put(strange, column, slice(None), random.choice(choices(column.categories), ROWS))
        found[name] = strange
    return found


def _missing(
    base: Arrays, columns: Sequence[Column], description: Mapping[str, Any], random: Random
) -> dict[str, Arrays]:
    """Holes and infinities where the estimator takes them: one in each column, several, and everywhere."""
    found: dict[str, Arrays] = {}
    holed = [column for column in columns if column.takes_missing]
    if holed:
        found["one value missing"] = _marked(base, holed, np.eye(len(holed), dtype=bool), [np.nan])
        found["several values missing"] = _marked(base, holed, _combinations(len(holed), random), [np.nan])
        found["all values missing"] = _marked(base, holed, np.ones((2, len(holed)), bool), [np.nan])
    floats = [column for column in columns if base[column.input].dtype.kind == "f"]
    if description.get("infinite") and floats:
        masks = np.repeat(np.eye(len(floats), dtype=bool), 2, axis=0)
        found["infinite values"] = _marked(base, floats, masks, [np.inf, -np.inf])
    return found


def _combinations(width: int, random: Random) -> Array:
    """Which columns are missing in each row: all combinations where they are few, else drawn with every density."""
    if width <= COMBINED:
        return (np.arange(2**width)[:, None] >> np.arange(width)) & 1 == 1
    return random.random((ROWS, width)) < random.random((ROWS, 1))


def _marked(base: Arrays, columns: Sequence[Column], masks: Array, marks: Sequence[float]) -> Arrays:
    """One row for every mask, up to `EVERY`, with a mark in the columns where the mask is true."""
    masks = masks[:EVERY]
    rows = len(masks)
    found = {name: array[np.arange(rows) % len(array)] for name, array in base.items()}
    written = np.array([marks[row % len(marks)] for row in range(rows)])
    for place, column in enumerate(columns):
        _put(found, column, masks[:, place], written[masks[:, place]])
    return found


def _put(arrays: Arrays, column: Column, rows: Any, values: Any) -> None:
    """Writes one column of some rows."""
    array = arrays[column.input]
    array.reshape(len(array), -1)[rows, column.place] = _cast(np.asarray(values), array.dtype)


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """The values in another type; what is too large becomes infinite, and integers are cut to their range."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.clip(np.nan_to_num(values), max(limits.min, -(2**53)), min(limits.max, 2**53)).astype(dtype)
    with np.errstate(over="ignore"):
        return values.astype(dtype)
