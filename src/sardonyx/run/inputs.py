"""The inputs of one run: given as arrays, numbers, text or files, and generated where nothing is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays, data_frame, images
from sardonyx.arrays import Rows
from sardonyx.dataset import in_memory, misfit, named
from sardonyx.errors import BadData, NotFound, UsageError
from sardonyx.frame import Frame
from sardonyx.signature import Array, Arrays, Signature, TensorSpec, parse_type

_NUMBERS = (bool, int, float, np.generic)
# Columns that are named where an input came from.
_NAMED = 8


@dataclass(frozen=True)
class Inputs:
    """Arrays that fit the model, and for each a line on where it came from."""

    arrays: Arrays
    origins: dict[str, str]
    generated: tuple[str, ...]
    made: tuple[str, ...]  # generated, or filled with a number: their sizes were chosen here


@dataclass(frozen=True)
class _Given:
    """An array; or a number that fills the input; or neither, when the input is generated in a shape that was asked for."""

    origin: str
    array: Any = None
    fill: Any = None
    shape: tuple[int | str | None, ...] | None = None


def prepare(
    signature: Signature,
    given: Mapping[str, Any],
    *,
    data: Any = None,
    label: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Inputs:
    """All inputs of the model, or one error that names everything wrong with what was given."""
    _refuse_unknown_sizes(signature, sizes or {})
    found, problems, spare = _understood(signature, given, data, label)
    wanted = replace(signature, inputs=tuple(_with_shape(spec, found) for spec in signature.inputs))
    whole = {name: item.array for name, item in found.items() if item.array is not None}
    missing = [spec.name for spec in signature.inputs if spec.name not in whole]
    present = replace(signature, inputs=tuple(spec for spec in signature.inputs if spec.name in whole))
    problems += present.try_fit(whole, sizes)[1]
    if not problems:
        whole |= _made(wanted, found, missing, _bound(signature, found, sizes or {}), seed)
        fitted, problems = signature.try_fit(whole, sizes)
    if problems:
        raise misfit(signature, problems, spare, what="the inputs")
    origins = {
        spec.name: (found[spec.name].origin if spec.name in found else "") or _drawn(spec, fitted[spec.name], seed)
        for spec in signature.inputs
    }
    generated = tuple(name for name in missing if name not in found or found[name].fill is None)
    made = tuple(name for name in missing if name not in found or found[name].shape is None)
    return Inputs(fitted, origins, generated, made)


def _understood(
    signature: Signature, given: Mapping[str, Any], data: Any, label: str | None
) -> tuple[dict[str, _Given], list[str], tuple[str, ...]]:
    """What was given for each input, what could not be read, and names of the data that no input has.

    Inputs given one by one come before those of `data`.
    """
    specs = {spec.name: spec for spec in signature.inputs}
    problems = [f"{name}: the model has no such input" for name in given if name not in specs]
    found, spare = dict[str, _Given](), tuple[str, ...]()
    if data is not None:
        found, wrong, spare = _from_data(signature, data, label, given)
        problems += wrong
    for name in given:
        if name not in specs:
            continue
        try:
            found[name] = _read(given[name], specs[name])
        except (BadData, NotFound) as error:
            problems.append(f"{name}: {error.message}")
        except (ValueError, OSError) as error:
            problems.append(f"{name}: {error}")
    return found, problems, spare


def _from_data(
    signature: Signature, data: Any, label: str | None, given: Mapping[str, Any]
) -> tuple[dict[str, _Given], list[str], tuple[str, ...]]:
    """The inputs in a file, a table or a dict of arrays, but those of a table that are given one by one anyway."""
    loaded, where = _open_data(data)
    left = replace(signature, inputs=tuple(spec for spec in signature.inputs if spec.name not in given))
    found = named(loaded, left if isinstance(loaded, Frame) else signature, label=label, ignored=True, where=where)
    told = {name: f"{where}: {_counted(taken)}" for name, taken in found.columns.items()}
    made = {name: _Given(told.get(name, where), np.asarray(rows[...])) for name, rows in found.inputs.items()}
    return made, found.problems, found.spare


def _open_data(data: Any) -> tuple[Mapping[str, Rows] | Frame, str]:
    """The arrays or columns, and what to call where they come from."""
    if data_frame.is_frame(data):
        return data_frame.of_object(data), "the DataFrame"
    if isinstance(data, Mapping):
        return in_memory(data), "the data"
    path = Path(data)
    if path.is_dir():
        raise BadData(f"{path} is a folder, and run takes one batch", hint="give one image with --input NAME=FILE")
    return arrays.open_arrays(path), str(path)


def _counted(columns: Sequence[str]) -> str:
    """The columns of an input in words: all of them, or the first few."""
    more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
    return f"{'column' if len(columns) == 1 else 'columns'} {', '.join(columns[:_NAMED])}{more}"


def _read(value: Any, spec: TensorSpec) -> _Given:
    if isinstance(value, Path):
        return _from_file(value, spec)
    if isinstance(value, str):
        return _from_text(value, spec)
    if isinstance(value, (*_NUMBERS, list, tuple)):
        return _from_literal(value, spec)
    return _Given("given", value)


def _from_text(text: str, spec: TensorSpec) -> _Given:
    """A file that exists; else a type with a shape to generate; else a number or a list; else, for strings, the text itself."""
    if _exists(text):
        return _from_file(Path(text), spec)
    parsed = parse_type(text)
    if parsed is not None:
        dtype, shape = parsed
        if dtype != spec.dtype:
            raise ValueError(f"type {dtype}, the model takes {spec.dtype}")
        return _Given("", shape=shape)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if spec.dtype != "string":
            shown = text if len(text) <= 60 else f"{text[:60]}…"
            raise ValueError(f"'{shown}' is neither a file, nor a number, a list or a type as float32[1,3]") from None
        value = text
    return _from_literal(value, spec)


def _from_file(path: Path, spec: TensorSpec) -> _Given:
    if not path.is_file():
        raise ValueError(
            f"{path} {'is a folder' if path.is_dir() else 'is not a file' if path.exists() else 'does not exist'}"
        )
    if arrays.kind(path) is None:
        if path.suffix.lower() not in images.SUFFIXES:
            raise ValueError(f"{path} is neither a {arrays.KINDS} file nor an image")
        array, done = images.load(path, spec)
        return _Given(f"{path}: {done}", array)
    loaded = arrays.open_arrays(path)
    if isinstance(loaded, Frame):
        return _from_table(loaded, path, spec)
    if len(loaded) > 1 and spec.name not in loaded:
        raise ValueError(f"{path} holds several arrays, and none is called {spec.name}: {', '.join(loaded)}")
    if not loaded:
        raise ValueError(f"{path} holds no array")
    rows = loaded[spec.name] if spec.name in loaded else next(iter(loaded.values()))
    return _Given(str(path), np.asarray(rows[...]))


def _from_table(frame: Frame, path: Path, spec: TensorSpec) -> _Given:
    """The columns of a table that fit the input."""
    found = named(frame, Signature((spec,)), ignored=True)
    if spec.name not in found.inputs:
        reasons = [problem.partition(": ")[2] for problem in found.problems] or ["no column fits it"]
        raise ValueError(f"{path}: {'; '.join(reasons)}")
    return _Given(f"{path}: {_counted(found.columns[spec.name])}", found.inputs[spec.name])


def _from_literal(value: Any, spec: TensorSpec) -> _Given:
    """A list as an array of the input's type; a number likewise, which then fills an input that is not a scalar."""
    if not spec.is_tensor:
        return _Given("given", value)
    array = _exact(np.asarray(value), spec)
    if array.ndim == 0 and spec.shape and spec.dtype != "string":
        return _Given(f"filled with {array.item()}", fill=array)
    return _Given(f"given, {array.item()}" if array.ndim == 0 else "given", array)


def _exact(array: Array, spec: TensorSpec) -> Array:
    """The numbers in the input's type. People write 1 for 1.0, but 1.5 is no integer."""
    if array.dtype.kind not in "biuf" or spec.dtype == "string":
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(spec.numpy_dtype)
    if "float" in spec.dtype or "complex" in spec.dtype or np.array_equal(cast, array):
        return cast
    raise ValueError(f"{array.tolist()} does not fit {spec.dtype}")


def _with_shape(spec: TensorSpec, found: Mapping[str, _Given]) -> TensorSpec:
    asked = found[spec.name].shape if spec.name in found else None
    return spec if asked is None else replace(spec, shape=asked)


def _bound(signature: Signature, found: Mapping[str, _Given], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of named dimensions: asked for, or settled by an array or a shape that was given."""
    known = dict(sizes)
    for spec in signature.inputs:
        given = found.get(spec.name, _Given(""))
        for dim, size in zip(spec.shape or (), getattr(given.array, "shape", given.shape) or (), strict=False):
            if isinstance(dim, str) and isinstance(size, int):
                known.setdefault(dim, size)
    return known


def _made(
    signature: Signature, found: Mapping[str, _Given], missing: list[str], known: Mapping[str, int], seed: int
) -> Arrays:
    """The inputs that are filled or generated."""
    filled = {name: found[name].fill for name in missing if name in found and found[name].fill is not None}
    shapes = signature.shapes(known)
    drawn = signature.sample(seed=seed, sizes=known, only=[name for name in missing if name not in filled])
    return drawn | {name: np.full(shapes[name], number) for name, number in filled.items()}


def _drawn(spec: TensorSpec, array: Array, seed: int) -> str:
    value = (
        f", {array.item()}" if array.ndim == 0 else f", {spec.between[0]} to {spec.between[1]}" if spec.between else ""
    )
    return f"generated{value}, seed {seed}"


def _refuse_unknown_sizes(signature: Signature, sizes: Mapping[str, int]) -> None:
    unknown = [name for name in sizes if name not in signature.dynamic]
    if unknown:
        names = ", ".join(signature.dynamic) or "none: every dimension is fixed"
        raise UsageError(
            f"no input has a dynamic dimension {', '.join(unknown)}", hint=f"the dynamic dimensions are {names}"
        )


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # longer than a file name may be, or with a null byte
        return False
