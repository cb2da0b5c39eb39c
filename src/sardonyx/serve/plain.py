"""Predictions in plain JSON, for people: inputs by name, or the bare value where a model has one input."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import orjson
import simdjson

from sardonyx.serve.options import Limits
from sardonyx.serve.parser import Parser, nesting, numbers
from sardonyx.serve.refusal import bad
from sardonyx.serve.served import Served
from sardonyx.serve.terms import Given
from sardonyx.signature import Array, TensorSpec

# Wrong names beyond the inputs that the model has are looked at one by one, up to so many.
_SURPLUS = 64


def read_plain(served: Served, body: bytes | memoryview, parser: Parser) -> tuple[list[Array], int, Hashable]:
    """The inputs, their rows, and the key that requests must share to run together."""
    message = parser.value(body)
    specs, terms = served.signature.inputs, served.terms
    if isinstance(message, dict | simdjson.Object):
        if len(message) > len(terms.inputs) + _SURPLUS:
            raise bad(f"{len(message)} inputs; the model takes {terms.describe()}")
        unknown = next((name for name in message if name not in terms.inputs), None)
        if unknown is not None:
            raise bad(f"input {unknown}: the model has no such input; it takes {terms.describe()}")
        missing = next((spec.name for spec in specs if spec.name not in message), None)
        if missing is not None:
            raise bad(f"input {missing}: missing; the model takes {terms.describe()}")
        values = [message[spec.name] for spec in specs]
    elif len(specs) == 1:
        values = [message]
    else:
        raise bad(f"name the inputs: the model takes {terms.describe()}")
    nested = [nesting(value, spec.name) for spec, value in zip(specs, values, strict=True)]
    shapes = [_shape(spec, shape) for spec, shape in zip(specs, nested, strict=True)]
    # Before the values are read: so many are not read for nothing.
    given = [Given(spec.name, terms.datatypes[spec.name], shape) for spec, shape in zip(specs, shapes, strict=True)]
    rows = terms.check(given)
    arrays = [
        numbers(value, tensor.datatype, shape, tensor.name).reshape(tensor.shape)
        for value, tensor, shape in zip(values, given, nested, strict=True)
    ]
    return arrays, rows, served.key(terms.output_names, shapes, rows)


def write_plain(served: Served, outputs: Sequence[Array], limits: Limits) -> bytes:
    """The outputs by name, as nested lists."""
    if sum(array.nbytes for array in outputs) > limits.output_bytes:
        raise bad(f"the answer is above the limit of {limits.output_bytes} bytes")
    values = {
        name: array.tolist() if array.dtype == object or not array.ndim else np.ascontiguousarray(array)
        for name, array in zip(served.terms.output_names, outputs, strict=True)
    }
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def _shape(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an input whose value is nested like this; of one row, the outer brackets may be left out."""
    if spec.shape is not None and len(shape) == len(spec.shape) - 1 and not isinstance(spec.shape[0], int):
        return (1, *shape)
    return shape
