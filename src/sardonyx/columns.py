"""Which column of a table goes into which input of a model.

- A column named like an input of one value per example goes into it.
- An input that takes a row of several values, as `X` of `float32[batch,4]`, gets the columns that are left: numbers for an input
  of numbers, text for one of text. Their order is the one asked for, else the one that the model carries from its
  conversion, else that of the table.
- Inputs called x0, x1, … are columns by position, as estimators that were fitted without names have them.

Columns that no input takes are left out, and are named where something is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sardonyx.frame import Array, Column, Frame

if TYPE_CHECKING:
    import onnx_ir as ir

    from sardonyx.signature import Signature, TensorSpec

# Where a model keeps the names of the columns that its matrix was fitted on, by input, as JSON.
KEY = "sardonyx.columns"


@dataclass
class Assignment:
    """The arrays by input in the frame's own precision, the columns of each, and what is wrong, in words.

    An input that no column is there for is in none of these.
    """

    inputs: dict[str, Array] = field(default_factory=dict)
    taken: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def used(self) -> set[str]:
        return {name for names in self.taken.values() for name in names}


def assign(frame: Frame, signature: Signature, *, label: str | None = None, order: Sequence[str] = ()) -> Assignment:
    """The inputs of the model from the columns of a table. The column `label` is one of them only if an input is called so."""
    found = Assignment()
    open_inputs = []
    for spec in signature.inputs:
        if spec.name in frame and _takes_one(spec):
            _fill(found, spec, [frame[spec.name]])
        else:
            open_inputs.append(spec)
    used = {*found.used, label}
    rest = [column for column in frame.values() if column.name not in used]
    if _by_position(signature) and len(rest) == len(open_inputs) == len(signature.inputs):
        for spec, column in zip(open_inputs, rest, strict=True):
            _fill(found, spec, [column])
        return found
    for spec in open_inputs:
        _fill_row(found, spec, open_inputs, rest, frame, order)
    return found


def store(model: ir.Model, order: Mapping[str, Sequence[str]]) -> None:
    """Writes into the model the names of the columns that each input takes, in their order, for every later verb."""
    model.metadata_props[KEY] = json.dumps({name: list(names) for name, names in order.items()})
    attach(model)


def store_fitted(model: ir.Model, names: Sequence[str]) -> None:
    """Writes into the model the columns that its original was fitted on, where they make up its only input."""
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    shape = inputs[0].shape if len(inputs) == 1 else None
    if shape is not None and len(shape) == 2 and names and shape[1] == len(names):
        store(model, {inputs[0].name or "": names})


def attach(model: ir.Model) -> None:
    """Gives the inputs of the graph the columns that the model's metadata name, so that its signature knows them."""
    known = _parsed(model.metadata_props.get(KEY, ""))
    for value in model.graph.inputs:
        if value.name in known:
            value.meta[KEY] = tuple(known[value.name])


def _parsed(text: str) -> dict[str, list[str]]:
    """What `store` wrote; nothing where the metadata hold something else."""
    try:
        held = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    pairs = held.items() if isinstance(held, dict) else ()
    return {name: names for name, names in pairs if isinstance(names, list) and all(isinstance(n, str) for n in names)}


def _takes_one(spec: TensorSpec) -> bool:
    """Whether the input has one value for each example."""
    return spec.shape is None or len(spec.shape) == 1 or (len(spec.shape) == 2 and spec.shape[1] == 1)


def _by_position(signature: Signature) -> bool:
    names = [f"x{index}" for index in range(len(signature.inputs))]
    return len(names) > 1 and signature.input_names == names and all(map(_takes_one, signature.inputs))


def _fill(found: Assignment, spec: TensorSpec, columns: Sequence[Column]) -> None:
    """Adds the columns as one input, or what is wrong with each of them."""
    arrays = []
    for column in columns:
        try:
            arrays.append(column.of_type(spec.dtype))
        except ValueError as error:
            found.problems.append(f"{spec.name}: column '{column.name}': {error}")
    found.taken[spec.name] = [column.name for column in columns]
    if len(arrays) < len(columns):
        return
    single = len(columns) == 1 and (spec.shape is None or len(spec.shape) == 1)
    found.inputs[spec.name] = arrays[0] if single else np.stack(arrays, axis=1)


def _fill_row(
    found: Assignment,
    spec: TensorSpec,
    open_inputs: Sequence[TensorSpec],
    rest: Sequence[Column],
    frame: Frame,
    order: Sequence[str],
) -> None:
    """Gives an input that takes several columns those that are left and fit it."""
    text = spec.dtype == "string"
    rivals = [other.name for other in open_inputs if (other.dtype == "string") == text]
    if len(rivals) > 1 or (spec.shape is not None and len(spec.shape) not in (1, 2)):
        return
    wanted = order or spec.columns
    missing = [name for name in wanted if name not in frame]
    if missing:
        found.problems.append(f"{spec.name}: the columns {_listed(missing)} are missing")
        return
    width = None if spec.shape is None else spec.shape[1] if len(spec.shape) == 2 else 1
    columns = [frame[name] for name in wanted] or _fitting(rest, text, width)
    if isinstance(width, int) and len(columns) != width:
        found.problems.append(f"{spec.name}: {_miscounted(spec, width, columns, rest, text)}")
        return
    _fill(found, spec, columns)


def _fitting(rest: Sequence[Column], text: bool, width: Any) -> list[Column]:
    """The columns of the right kind. Text may be written in digits: where all columns are as many as wanted, all are text."""
    if text and len(rest) == width and all(column.textual or column.written is not None for column in rest):
        return list(rest)
    return [column for column in rest if (column.textual if text else column.numeric)]


def _miscounted(spec: TensorSpec, width: int, columns: Sequence[Column], rest: Sequence[Column], text: bool) -> str:
    kind = "text" if text else "numbers"
    said = f"takes {width} columns of {kind}, and there are {len(columns)}: {_listed(c.name for c in columns)}"
    others = [_why(column, spec) for column in rest if column not in columns]
    return said + (f"; not of {kind}: {', '.join(others[:5])}" if others and len(columns) < width else "")


def _why(column: Column, spec: TensorSpec) -> str:
    try:
        column.of_type(spec.dtype)
    except ValueError as error:
        return f"{column.name} ({error})"
    return column.name


def _listed(names: Iterable[str], most: int = 12) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return (", ".join(listed[:most]) or "none") + more
