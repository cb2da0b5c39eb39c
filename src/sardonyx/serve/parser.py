"""JSON of strangers: bounded before it is parsed, and large lists of numbers read without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import orjson
import simdjson

from sardonyx.serve.options import Limits
from sardonyx.serve.refusal import TOO_LARGE, Refusal, bad
from sardonyx.serve.tensors import NUMPY, cast, count, from_numbers
from sardonyx.signature import Array

# Above this, numbers go from the JSON text into an array without a Python object each.
LARGE_JSON = 32 << 10
# A parser keeps about nine bytes for each byte of the largest text that it has read.
_WARM_BYTES = 8 << 20
# simdjson counts the elements of a list up to this number, and pysimdjson takes that for their number: a longer list overruns
# the memory of its copy. A list has at least two bytes for each element, so a text of twice this length has none.
_COUNTED = 0xFFFFFF
# Lists and objects of a text, each of which costs some hundred bytes while it is looked at. Shorter texts cannot have many.
_MOST_PARTS, _FEW_PARTS_BYTES = 1 << 20, 4 << 20
_BUFFERS: dict[str, tuple[Literal["d", "i", "u"], type]] = {
    "f": ("d", np.float64),
    "i": ("i", np.int64),
    "u": ("u", np.uint64),
}


class Parser:
    """Parses requests. Both libraries behind it end at a depth of 1024."""

    def __init__(self, limits: Limits) -> None:
        self._most = min(limits.text_bytes, 2 * _COUNTED)
        self._warm = simdjson.Parser()

    def must_be_short(self, size: int) -> None:
        """Raises a refusal for a text of so many bytes, if that is more than is read."""
        if size > self._most:
            raise Refusal(
                TOO_LARGE, f"{size} bytes of JSON are above the limit of {self._most}; send tensors as binary data"
            )

    def value(self, text: bytes | memoryview) -> Any:
        """The value of the text; large ones stay in the parser's form until they are read."""
        self.must_be_short(len(text))
        try:
            return orjson.loads(text) if len(text) <= LARGE_JSON else self._large(text)
        except (ValueError, RuntimeError, UnicodeDecodeError) as error:
            raise bad(f"the request is not JSON: {error}") from None

    def object(self, text: bytes | memoryview) -> Any:
        """The JSON object of the text."""
        found = self.value(text)
        if not isinstance(found, dict | simdjson.Object):
            raise bad("the request is not a JSON object")
        return found

    def small_object(self, text: bytes | memoryview) -> dict[str, Any]:
        """The JSON object of a short text."""
        if len(text) > LARGE_JSON:
            raise Refusal(TOO_LARGE, f"the body is above the limit of {LARGE_JSON} bytes")
        return self.object(text)

    def rest(self) -> None:
        """Lets the memory go that a large text has left."""
        self._warm = simdjson.Parser()

    def _large(self, text: bytes | memoryview) -> Any:
        """Read by the parser that is there, whose memory is warm, unless it would grow by this text or is still in use."""
        if len(text) > _FEW_PARTS_BYTES:
            letters = np.frombuffer(text, np.uint8)
            if np.count_nonzero(letters == ord("[")) + np.count_nonzero(letters == ord("{")) > _MOST_PARTS:
                raise bad(f"more than {_MOST_PARTS} lists and objects in one request")
        if len(text) <= _WARM_BYTES:
            try:
                return self._warm.parse(text)
            except RuntimeError:
                pass
        return simdjson.Parser().parse(text)


def numbers(held: Any, datatype: str, shape: Sequence[int], name: str) -> Array:
    """The tensor of a JSON value that either library gave."""
    if not isinstance(held, simdjson.Array):
        return from_numbers(held, datatype, shape, name)
    wanted = _BUFFERS.get(NUMPY[datatype].kind) if datatype != "BF16" else None
    try:
        if not _even(held, shape, name):
            raise ValueError
        if wanted is None:
            return from_numbers(held.as_list(), datatype, shape, name)
        found: Array = np.frombuffer(held.as_buffer(of_type=wanted[0]), wanted[1])
    except (TypeError, ValueError):
        raise bad(f"input {name}: the data are not {datatype} values in a list of even depth") from None
    return cast(found, datatype, shape, name)


def nesting(value: Any, name: str) -> tuple[int, ...]:
    """The shape that a value has by its first elements, however its lists are held."""
    shape: list[int] = []
    while isinstance(value, list | simdjson.Array):
        shape.append(len(value))
        if len(shape) > 64:
            raise bad(f"input {name}: nested deeper than any model takes")
        if not shape[-1]:
            break
        value = value[0]
    return tuple(shape)


def _even(held: Any, shape: Sequence[int], name: str) -> bool:
    """Whether the list is flat, or nested as the shape is. The parser's buffer would not tell."""
    if not len(held) or not isinstance(held[0], simdjson.Array):
        if len(held) != count(shape):
            raise bad(f"input {name}: {len(held)} values for the shape {list(shape)}")
        return True
    level = [held]
    for size in shape[:-1]:
        if any(not isinstance(part, simdjson.Array) or len(part) != size for part in level):
            return False
        level = [child for part in level for child in part]
    return bool(shape) and all(isinstance(part, simdjson.Array) and len(part) == shape[-1] for part in level)
