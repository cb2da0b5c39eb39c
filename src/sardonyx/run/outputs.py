"""What came out: each output in numbers for a table, and as arrays for an .npz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.report import Table, cell
from sardonyx.signature import Array, Arrays, dims

# First values of each output in JSON, and in the table, where a line has to hold them.
FIRST, SHOWN = 8, 3


def describe(name: str, value: Any) -> dict[str, Any]:
    """The JSON fields of an output: name, dtype and shape; for numbers min, mean, max, nan and inf; its first values."""
    if isinstance(value, np.ndarray):
        return {"name": name, **_array(value)}
    if isinstance(value, Mapping):
        keys = list(value)
        return {
            "name": name, "dtype": f"map({_kind(keys)},{_kind(list(value.values()))})", "shape": None,
            "length": len(value), "first": {str(key): value[key] for key in keys[:FIRST]},
        }  # fmt: skip
    if isinstance(value, Sequence):
        inner = describe("", value[0])["dtype"] if value else "empty"
        first = [describe("", item)["first"] for item in value[:1]]
        return {"name": name, "dtype": f"sequence({inner})", "shape": None, "length": len(value), "first": first}
    return {"name": name, "dtype": "none" if value is None else type(value).__name__, "shape": None, "first": []}


def table(described: Sequence[Mapping[str, Any]]) -> Table:
    """One row per output. The column of NaN and Inf is there only when there are any."""
    bad = any(item.get("nan") or item.get("inf") for item in described)
    columns = ("output", "type", "min", "mean", "max", *(("NaN/Inf",) if bad else ()), "first values")
    return Table("outputs", columns, tuple(_row(item, bad) for item in described))


def as_arrays(outputs: Mapping[str, Any]) -> tuple[Arrays, dict[str, str]]:
    """Arrays to write by name, and the outputs that cannot be written with the reason.

    A sequence of arrays becomes `name/0`, `name/1`, …; maps with equal keys, as a classifier's probabilities, become
    `name/keys` and `name/values`, one row for each map.
    """
    arrays: Arrays = {}
    refused = {}
    for name, value in outputs.items():
        made = _made(name, value)
        clash = [member for member in made or () if member in arrays or (member in outputs and member != name)]
        if made is None or clash:
            refused[name] = f"another output is called {clash[0]}" if clash else f"a {describe(name, value)['dtype']}"
        else:
            arrays |= made
    return arrays, refused


def _array(array: Array) -> dict[str, Any]:
    strings = array.dtype.hasobject
    fields: dict[str, Any] = {"dtype": "string" if strings else str(array.dtype), "shape": list(array.shape)}
    if not strings and array.dtype.kind != "c":
        fields |= _numbers(array)
    return {**fields, "first": [_plain(item) for item in array.flat[:FIRST]]}


def _numbers(array: Array) -> dict[str, Any]:
    """Over the finite values; in float64, for a mean in half precision overflows soon."""
    wide = array if array.dtype.kind in "iub" else array.astype(np.float64)
    finite = wide if array.dtype.kind in "iub" else wide[np.isfinite(wide)]
    counts = {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}
    if not finite.size:
        return {"min": None, "mean": None, "max": None, **counts}
    low, high = _plain(finite.min()), _plain(finite.max())
    return {"min": low, "mean": float(finite.mean(dtype=np.float64)), "max": high, **counts}


def _row(item: Mapping[str, Any], bad: bool) -> tuple[object, ...]:
    size = "" if item["shape"] is None else dims(item["shape"])
    length = f" of {item['length']}" if "length" in item else ""
    marks = (f"{item['nan']:,} / {item['inf']:,}" if "nan" in item else "",) if bad else ()
    numbers = (_short(item.get(key)) for key in ("min", "mean", "max"))
    return item["name"], f"{item['dtype']}{size}{length}", *numbers, *marks, _first(item)


def _first(item: Mapping[str, Any]) -> str:
    first = item["first"][0] if item["dtype"].startswith("sequence") and item["first"] else item["first"]
    if isinstance(first, Mapping):
        return ", ".join(f"{key}: {_short(value)}" for key, value in list(first.items())[:SHOWN])
    return ", ".join(_short(value) for value in first[:SHOWN])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else cell(value)


def _made(name: str, value: Any) -> Arrays | None:
    if isinstance(value, np.ndarray):
        return {name: value}
    if isinstance(value, Mapping):
        return _from_maps(name, [value])
    if not isinstance(value, list | tuple):
        return None
    if value and all(isinstance(item, Mapping) for item in value):
        return _from_maps(name, value)
    if all(isinstance(item, np.ndarray) for item in value):
        return {f"{name}/{index}": item for index, item in enumerate(value)}
    return None


def _from_maps(name: str, maps: Sequence[Mapping[Any, Any]]) -> Arrays | None:
    keys = list(maps[0])
    if any(list(item) != keys for item in maps):
        return None
    return {f"{name}/keys": _held(keys), f"{name}/values": _held([list(item.values()) for item in maps])}


def _held(items: Sequence[Any]) -> Array:
    """The array of a map's keys or values: Python widens what the operators of ONNX give as float32."""
    array = np.asarray(items)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _kind(items: Sequence[Any]) -> str:
    array = _held(items[:1])
    return "string" if array.dtype.kind in "UO" else str(array.dtype)


def _plain(item: Any) -> Any:
    """A numpy scalar as Python has it; the types of ml_dtypes only know floats."""
    plain = item.item() if isinstance(item, np.generic) else item
    return (
        plain
        if isinstance(plain, bool | int | float | str)
        else float(plain)
        if not isinstance(plain, complex)
        else str(plain)
    )
