"""The example that a user hands over, as arrays by input: a file, a table, an array or tensor, or any nest of these.

A dict has the names of the inputs, a tuple or list has them in order. What lies inside a value is called by its path, as
`pair.0` and `batch.x`, which is how the worker of PyTorch puts a call together again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays, data_frame
from sardonyx.dataset import misfit, named
from sardonyx.errors import BadData
from sardonyx.frame import Frame
from sardonyx.signature import Array, Arrays, Signature, TensorSpec


def example_of(
    example: Any, specs: Sequence[TensorSpec], optional: Sequence[str] = (), *, columns: Sequence[str] = ()
) -> Arrays:
    """The arrays by input. `specs` are what is known of the inputs, `optional` the names of those that may be left out.

    Columns of a table go to the inputs as `columns.py` says, in the order `columns` where it is known.
    """
    if isinstance(example, str | Path):
        found = arrays.open_arrays(example)
        if isinstance(found, Frame):
            return _of_frame(found, specs, columns, str(example))
        return {name: np.asarray(rows[...]) for name, rows in found.items()}
    if data_frame.is_frame(example):
        return _of_frame(data_frame.of_object(example), specs, columns, "the DataFrame")
    known = list(dict.fromkeys(_root(spec.name) for spec in specs))
    return dict(_leaves(_by_name(example, known, [*known, *optional]), ()))


def _root(name: str) -> str:
    return name.partition(".")[0]


def _of_frame(frame: Frame, specs: Sequence[TensorSpec], columns: Sequence[str], where: str) -> Arrays:
    signature = Signature(tuple(specs))
    if not specs:
        raise BadData(f"nothing says which inputs {where} is for", hint="name them: --input x=float32[batch,4]")
    found = named(frame, signature, columns=columns, ignored=True, where=where)
    missing = [f"{spec.name}: missing ({spec})" for spec in specs if spec.name not in found.inputs]
    if found.problems or missing:
        raise misfit(signature, found.problems or missing, found.spare, what=where)
    arrays_of = {name: np.asarray(rows[...]) for name, rows in found.inputs.items()}
    # Where a framework says nothing about an input, float32 is what models compute in.
    unknown = [spec.name for spec in specs if spec.shape is None and spec.dtype == "float32"]
    return arrays_of | {name: arrays_of[name].astype(np.float32) for name in unknown}


def _by_name(example: Any, known: Sequence[str], positions: Sequence[str]) -> dict[str, Any]:
    """The values of the outermost level by the names of the inputs."""
    if isinstance(example, Mapping):
        whole = {str(name): value for name, value in example.items()}
        # A model that takes one dict is handed that dict.
        alone = len(known) == 1 and not any(_root(name) in positions for name in whole)
        nested = alone and len(whole) > 1
        return {known[0]: whole} if nested else whole
    in_order = _holds_arrays(example) or (isinstance(example, tuple) and not _is_record(example))
    values = list(example) if in_order else [example]
    names = positions or [f"input_{place}" for place in range(len(values))]
    if len(values) > len(names):
        raise BadData(
            f"the example has {len(values)} values, and the model takes {len(names)}: {', '.join(names)}",
            hint="give a dict with the names of the inputs",
        )
    return dict(zip(names, values, strict=False))


def _holds_arrays(value: Any) -> bool:
    """Whether this is a tuple or list of inputs, and not itself an array that is written as a list of numbers."""
    return isinstance(value, list | tuple) and any(_is_inner(item) or hasattr(item, "shape") for item in value)


def _is_inner(value: Any) -> bool:
    return isinstance(value, Mapping) or _is_record(value) or _holds_arrays(value)


def _is_record(value: Any) -> bool:
    """Whether it has fields: a dataclass, or a tuple with names."""
    return (dataclasses.is_dataclass(value) and not isinstance(value, type)) or hasattr(value, "_fields")


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
    """Every array inside with its dotted name. None stands for an input that is left out."""
    if value is None:
        return
    if _is_record(value):
        names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, (*path, str(name)))
    elif _holds_arrays(value):
        for place, item in enumerate(value):
            yield from _leaves(item, (*path, str(place)))
    else:
        yield ".".join(path), _array(value, ".".join(path))


def _array(value: Any, name: str) -> Array:
    """A tensor of any framework, or what numpy makes an array of."""
    if isinstance(value, float):  # as PyTorch takes Python's own
        return np.asarray(value, np.float32)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):
            return np.asarray(value.float().numpy()).astype(TensorSpec("", "bfloat16", None).numpy_dtype)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadData(f"the example of {name} is no array: {error}", hint="give arrays or tensors") from error
    if array.dtype == object and array.size and isinstance(array.flat[0], bytes):  # text of TensorFlow
        return np.array([item.decode() for item in array.flat], object).reshape(array.shape)
    if array.dtype.kind not in "biufcOUSTV" or (array.dtype == object and not _is_text(array)):
        raise BadData(
            f"the example of {name} is a {type(value).__name__}, which is no array",
            hint="give arrays, tensors, or dicts and tuples of them",
        )
    return array


def _is_text(array: Array) -> bool:
    return all(isinstance(item, str) for item in array.flat)
