"""Tensors as the Open Inference Protocol writes them: datatype names, raw bytes and JSON numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from sardonyx.serve.refusal import bad
from sardonyx.signature import Array

# The model's type -> the protocol's name for it.
DATATYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "bfloat16": "BF16", "string": "BYTES",
}  # fmt: skip
# BF16 has no numpy type: it is cut out of and widened to float32, as Triton's clients do.
NUMPY = {
    datatype: np.dtype(np.uint16 if datatype == "BF16" else object if datatype == "BYTES" else name)
    for name, datatype in DATATYPES.items()
}
_LENGTH = struct.Struct("<I")


def from_bytes(data: Any, datatype: str, shape: Sequence[int], name: str) -> Array:
    """The tensor whose values lie in `data`, row by row and little-endian. Numbers that lie aligned are not copied."""
    if datatype == "BYTES":
        return _strings(data, shape, name)
    array = np.frombuffer(data, NUMPY[datatype])
    if not array.flags.aligned:
        array = array.copy()
    return array.reshape(shape)


def to_bytes(array: Array) -> bytes | memoryview:
    """The tensor's values as the protocol sends them."""
    if array.dtype == object:
        return b"".join(_LENGTH.pack(len(text)) + text for text in map(_encoded, array.ravel()))
    return np.ascontiguousarray(array).data.cast("B") if array.size else b""


def from_numbers(values: Any, datatype: str, shape: Sequence[int], name: str) -> Array:
    """The tensor whose values are JSON's: a flat or nested list of numbers, booleans or strings."""
    if datatype == "BF16":
        raise bad(f"input {name}: BF16 has no JSON form; send it as binary data")
    if datatype == "BYTES":
        return _text_array(flat(values), shape, name)
    try:
        found = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        found = np.asarray(None)
    if found.dtype.kind in "iuf" and _has_booleans(values, found.ndim):
        found = np.asarray(None)
    return cast(found, datatype, shape, name)


def _has_booleans(values: Any, depth: int) -> bool:
    """Whether a true or false stands among the numbers: numpy takes it for 1 or 0, and nobody who writes it means that."""
    leaves = values if depth else (values,)
    for _ in range(depth - 1):
        leaves = chain.from_iterable(leaves)
    return bool in set(map(type, leaves))


def cast(found: Array, datatype: str, shape: Sequence[int], name: str) -> Array:
    """Numbers of JSON in the tensor's type and shape, or a refusal where a value would not survive."""
    wanted, kind = NUMPY[datatype], found.dtype.kind
    if found.size == 0 and count(shape) == 0:
        return np.empty(shape, wanted)
    if kind not in {"b": "b", "f": "iuf"}.get(wanted.kind, "iu"):
        raise bad(f"input {name}: the data are not {datatype} values in a list of even depth")
    if found.ndim > 1 and found.shape != tuple(shape):
        raise bad(f"input {name}: the data are nested as {list(found.shape)}, and the shape is {list(shape)}")
    with np.errstate(over="ignore"):
        array = found.astype(wanted)
    if wanted.kind in "iu" and not np.array_equal(array, found):
        raise bad(f"input {name}: a value is out of the range of {datatype}")
    return shaped(array, shape, name)


def shaped(array: Array, shape: Sequence[int], name: str) -> Array:
    """The values in the shape, or a refusal where their number is another."""
    if array.size != count(shape):
        raise bad(f"input {name}: {array.size} values for the shape {list(shape)}")
    return array.reshape(shape)


def count(shape: Sequence[int]) -> int:
    """How many values a shape holds."""
    product = 1
    for size in shape:
        product *= size
    return product


def flat(values: Any) -> list[Any]:
    """The leaves of a nested list."""
    leaves: list[Any] = []
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
        else:
            leaves.append(value)
    return leaves


def text_list(array: Array) -> list[str]:
    """A string tensor as JSON's flat list."""
    return [value if isinstance(value, str) else bytes(value).decode(errors="replace") for value in array.ravel()]


def _encoded(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _strings(data: Any, shape: Sequence[int], name: str) -> Array:
    texts: list[bytes] = []
    view, place, most = memoryview(data), 0, count(shape)
    while place < len(view):
        if len(texts) == most:
            raise bad(f"input {name}: more than {most} elements for the shape {list(shape)}")
        start = place + _LENGTH.size
        place = start + _LENGTH.unpack_from(view, place)[0] if start <= len(view) else len(view) + 1
        if place > len(view):
            raise bad(f"input {name}: its BYTES end in the middle of an element")
        texts.append(bytes(view[start:place]))
    return _text_array(texts, shape, name)


def _text_array(values: Sequence[Any], shape: Sequence[int], name: str) -> Array:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = _text(value, name)
    return shaped(array, shape, name)


def _text(value: Any, name: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise bad(f"input {name}: an element is not UTF-8, and the model takes text") from None
    if not isinstance(value, str):
        raise bad(f"input {name}: an element is {type(value).__name__}, and BYTES are strings")
    return value
