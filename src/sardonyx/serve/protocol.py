"""Messages of the Open Inference Protocol over REST: JSON, with tensors in JSON or as binary data behind it.

A client repeats itself: the JSON before binary tensors is the same, byte for byte, from one request to the next. What it says is
worked out once and kept, and so is the JSON before the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import simdjson

from sardonyx.serve.options import Limits
from sardonyx.serve.parser import Parser, numbers
from sardonyx.serve.refusal import bad
from sardonyx.serve.served import Served
from sardonyx.serve.shared_memory import Regions, Span, span
from sardonyx.serve.tensors import NUMPY, count, from_bytes, text_list, to_bytes
from sardonyx.serve.terms import Given
from sardonyx.serve.work import DEFAULT_PRIORITY
from sardonyx.signature import Array

Params = Mapping[str, Any]
_KEPT, _KEPT_BYTES = 256, 2048
# Wrong tensors beyond those that the model has are named, up to so many. Dimensions: no model takes more.
_SURPLUS, _MOST_DIMS = 64, 64
_ID_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """Where one input's values are: a part of the binary data, the JSON value itself, or shared memory."""

    given: Given
    start: int
    end: int
    data: Any = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A request without its binary values: what comes in, what is asked for, and how.

    `shared` says that some of it is in shared memory.
    """

    places: tuple[Place, ...]
    outputs: tuple[str, ...]
    binary: tuple[bool, ...]
    rows: int
    key: Any
    id: str | None
    timeout: float
    priority: int
    binary_bytes: int
    spans: tuple[Span | None, ...]
    shared: bool = False


class Reader:
    """Reads requests for one model and writes their answers."""

    def __init__(self, served: Served, limits: Limits, regions: Regions, parser: Parser) -> None:
        self.served = served
        self._limits, self._regions, self._parser = limits, regions, parser
        self._plans: dict[bytes, Plan] = {}
        self._heads: dict[Any, bytes] = {}
        self._order = {name: index for index, name in enumerate(served.terms.inputs)}

    def read(self, body: bytes | memoryview, json_bytes: int | None) -> tuple[Plan, list[Array]]:
        """The plan and the inputs of a request whose first `json_bytes` are JSON; all of it where that is None."""
        if json_bytes is None:
            return self._read_json(body)
        if not 0 <= json_bytes <= len(body):
            raise bad(f"Inference-Header-Content-Length is {json_bytes}, and the body has {len(body)} bytes")
        head = bytes(body[:json_bytes])
        plan = self._plans.get(head) or self._remember(head, self._plan_of(head))
        data = memoryview(body)[json_bytes:]
        if len(data) != plan.binary_bytes:
            raise bad(f"{len(data)} bytes of binary data, and the inputs say {plan.binary_bytes}")
        return plan, [self._values(place, data) for place in plan.places]

    def _read_json(self, body: bytes | memoryview) -> tuple[Plan, list[Array]]:
        plan = self._plan_of(body)
        if plan.binary_bytes:
            raise bad("the inputs say that binary data follow, and Inference-Header-Content-Length does not say where")
        inputs = [self._values(place, memoryview(b"")) for place in plan.places]
        # The parser can be used again once nobody holds on to what it read.
        return replace(plan, places=()), inputs

    def write(self, plan: Plan, arrays: Sequence[Array]) -> tuple[bytes, list[bytes | memoryview]]:
        """The JSON of an answer and the binary data behind it."""
        if sum(array.nbytes for array in arrays) > self._limits.output_bytes:
            raise bad(f"the answer is above the limit of {self._limits.output_bytes} bytes")
        data = [to_bytes(array) for array, binary in zip(arrays, plan.binary, strict=True) if binary]
        if plan.id is not None or not all(plan.binary):
            for array, span in zip(arrays, plan.spans, strict=True):
                if span is not None:
                    self._regions.write(span, to_bytes(array))
            return self._head(plan, arrays, data), data
        key = (plan.outputs, tuple([(array.shape, len(part)) for array, part in zip(arrays, data, strict=True)]))
        head = self._heads.get(key)
        if head is None:
            _make_room(self._heads)
            self._heads[key] = head = self._head(plan, arrays, data)
        return head, data

    def _remember(self, head: bytes, plan: Plan) -> Plan:
        if len(head) <= _KEPT_BYTES and all(place.data is None for place in plan.places):
            _make_room(self._plans)
            self._plans[head] = plan
        return plan

    def _plan_of(self, text: bytes | memoryview) -> Plan:
        message = self._parser.object(text)
        terms = self.served.terms
        outputs = _listed(message, "outputs", len(terms.outputs) + _SURPLUS)
        params = _params(message)
        everything = params.get("binary_data_output") is True
        names = terms.chosen([_text(output, "name", "an output") for output in outputs])
        spans = [span(_params(output), "an output") for output in outputs]
        flags = [
            found is None and _params(output).get("binary_data", everything) is True
            for output, found in zip(outputs, spans, strict=True)
        ]
        places = self._places(_listed(message, "inputs", len(terms.inputs) + _SURPLUS))
        rows = terms.check([place.given for place in places])
        places.sort(key=lambda place: self._order[place.given.name])
        request_id = message.get("id")
        if request_id is not None and not isinstance(request_id, str):
            raise bad("id is not a string")
        if request_id is not None and len(request_id) > _ID_CHARACTERS:
            raise bad(f"id has more than {_ID_CHARACTERS} characters")
        return Plan(
            places=tuple(places),
            outputs=names,
            binary=tuple(flags) or (everything,) * len(names),
            rows=rows,
            key=self.served.key(names, [place.given.shape for place in places], rows),
            id=request_id,
            timeout=_whole(params, "timeout", 0) / 1e6,
            priority=_whole(params, "priority", 0) or DEFAULT_PRIORITY,
            binary_bytes=max((place.end for place in places), default=0),
            spans=tuple(spans) or (None,) * len(names),
            shared=any(spans) or any(place.span for place in places),
        )

    def _places(self, inputs: Sequence[Any]) -> list[Place]:
        places, start = [], 0
        for tensor in inputs:
            name = _text(tensor, "name", "an input")
            given = Given(name, _text(tensor, "datatype", f"input {name}"), _shape(tensor, name))
            size, found = _params(tensor).get("binary_data_size"), span(_params(tensor), f"input {name}")
            if found is not None:
                if given.datatype != "BYTES" and found.size != _bytes_of(given):
                    raise bad(f"input {name}: {found.size} bytes of shared memory, and its shape needs another number")
                places.append(Place(given, start, start, span=found))
            elif size is None:
                if "data" not in tensor:
                    raise bad(f"input {name}: has neither data nor binary_data_size")
                places.append(Place(given, start, start, _Held(tensor["data"])))
            elif type(size) is not int or size < 0 or (given.datatype != "BYTES" and size != _bytes_of(given)):
                raise bad(f"input {name}: binary_data_size is {size}, and its shape and datatype need another")
            else:
                places.append(Place(given, start, start + size))
                start += size
        return places

    def _values(self, place: Place, data: memoryview) -> Array:
        given = place.given
        if place.data is not None:
            return numbers(place.data.value, given.datatype, given.shape, given.name)
        part = data[place.start : place.end] if place.span is None else self._regions.read(place.span)
        return from_bytes(part, given.datatype, given.shape, given.name)

    def _head(self, plan: Plan, arrays: Sequence[Array], data: Sequence[bytes | memoryview]) -> bytes:
        sizes = iter(data)
        served = self.served
        message: dict[str, Any] = {"model_name": served.name, "model_version": served.version}
        if plan.id is not None:
            message["id"] = plan.id
        message["outputs"] = [
            {
                "name": name,
                "datatype": served.terms.datatypes[name],
                "shape": array.shape,
                **(
                    {"parameters": _written(found, array)}
                    if found is not None
                    else {"parameters": {"binary_data_size": len(next(sizes))}}
                    if binary
                    else {"data": _json_values(array)}
                ),
            }
            for name, array, binary, found in zip(plan.outputs, arrays, plan.binary, plan.spans, strict=True)
        ]
        return orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY)


@dataclass(frozen=True, slots=True)
class _Held:
    """The JSON value of an input's data."""

    value: Any


def _written(found: Span, array: Array) -> dict[str, Any]:
    return {
        "shared_memory_region": found.region,
        "shared_memory_offset": found.offset,
        "shared_memory_byte_size": len(to_bytes(array)),
    }


def _json_values(array: Array) -> Any:
    return text_list(array) if array.dtype == object else np.ascontiguousarray(array).ravel()


def _bytes_of(given: Given) -> int:
    if given.datatype not in NUMPY:
        raise bad(f"input {given.name}: there is no datatype {given.datatype}")
    return count(given.shape) * NUMPY[given.datatype].itemsize


def _listed(message: Any, key: str, most: int) -> list[Any]:
    value = message.get(key, [])
    if not isinstance(value, list | simdjson.Array):
        raise bad(f"{key} is not a list")
    if len(value) > most:
        raise bad(f"{key} has {len(value)} entries, and the model has {most - _SURPLUS} {key}")
    for item in value:
        if not isinstance(item, dict | simdjson.Object):
            raise bad(f"{key} holds something that is not an object")
    return list(value)


def _params(message: Any) -> Params:
    value = message.get("parameters", {})
    if not isinstance(value, dict | simdjson.Object):
        raise bad("parameters is not an object")
    return value


def _text(message: Any, key: str, where: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise bad(f"{where} has no {key}, or one that is not a string")
    return value


def _shape(tensor: Any, name: str) -> tuple[int, ...]:
    shape = tensor.get("shape")
    if not isinstance(shape, list | simdjson.Array):
        raise bad(f"input {name}: its shape is not a list of whole numbers")
    if len(shape) > _MOST_DIMS:
        raise bad(f"input {name}: {len(shape)} dimensions are more than any model takes")
    sizes = tuple(shape)
    if not all(type(size) is int and abs(size) < 1 << 62 for size in sizes):
        raise bad(f"input {name}: its shape is not a list of whole numbers")
    return sizes


def _whole(params: Params, key: str, default: int) -> int:
    value = params.get(key, default)
    if type(value) is not int or not 0 <= value < 1 << 40:
        raise bad(f"the parameter {key} is not a whole number of 0 or more")
    return value


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
