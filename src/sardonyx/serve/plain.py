"""Predictions in plain JSON, for people: inputs by name, or the bare value where a model has one input."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import orjson

from sardonyx.serve.engine import Served
from sardonyx.serve.refusal import bad
from sardonyx.serve.tensors import from_numbers
from sardonyx.serve.terms import Given
from sardonyx.signature import Array, TensorSpec


def read_plain(served: Served, body: bytes | memoryview) -> tuple[list[Array], int, Hashable]:
    """The inputs, their rows, and the key that requests must share to run together."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad(f"the request is not JSON: {error}") from None
    specs = served.signature.inputs
    if not isinstance(message, dict):
        if len(specs) != 1:
            raise bad(f"name the inputs: the model takes {served.terms.describe()}")
        message = {specs[0].name: message}
    unknown = [name for name in message if name not in served.terms.inputs]
    if unknown:
        raise bad(f"input {unknown[0]}: the model has no such input; it takes {served.terms.describe()}")
    missing = [spec.name for spec in specs if spec.name not in message]
    if missing:
        raise bad(f"input {missing[0]}: missing; the model takes {served.terms.describe()}")
    arrays = [_array(spec, message[spec.name], served.terms.datatypes[spec.name]) for spec in specs]
    given = [
        Given(spec.name, served.terms.datatypes[spec.name], array.shape)
        for spec, array in zip(specs, arrays, strict=True)
    ]
    rows = served.terms.check(given)
    return arrays, rows, served.key(served.terms.output_names, [array.shape for array in arrays], rows)


def write_plain(served: Served, outputs: Sequence[Array]) -> bytes:
    """The outputs by name, as nested lists."""
    values = {
        name: array.tolist() if array.dtype == object else np.ascontiguousarray(array)
        for name, array in zip(served.terms.output_names, outputs, strict=True)
    }
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def _array(spec: TensorSpec, value: Any, datatype: str) -> Array:
    """The value in the shape that its nesting has; of one row, the outer brackets may be left out."""
    array = from_numbers(value, datatype, _shape(value, spec.name), spec.name)
    if spec.shape is not None and array.ndim == len(spec.shape) - 1 and not isinstance(spec.shape[0], int):
        return array[np.newaxis]
    return array


def _shape(value: Any, name: str) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        if len(shape) > 64:
            raise bad(f"input {name}: nested deeper than any model takes")
        if not value:
            break
        value = value[0]
    return tuple(shape)
