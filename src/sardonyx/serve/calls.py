"""ModelInfer over gRPC: raw tensors are cut out of a message's bytes and put into them, not copied through protobuf.

A client repeats itself: all but the tensors is the same, byte for byte, from one request to the next. What it says is worked out
once and kept, and so is the message around the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sardonyx.serve.access import Access
from sardonyx.serve.engine import Models
from sardonyx.serve.messages import MESSAGES
from sardonyx.serve.options import Limits
from sardonyx.serve.refusal import TOO_LARGE, Refusal, bad
from sardonyx.serve.served import Served
from sardonyx.serve.shared_memory import Regions, Span, span
from sardonyx.serve.tensors import NUMPY, cast, count, from_bytes, from_numbers, shaped, to_bytes
from sardonyx.serve.terms import Given
from sardonyx.serve.work import DEFAULT_PRIORITY
from sardonyx.signature import Array

# Where a request that sends values and not raw bytes puts them. FP16 and BF16 have no such place.
_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
_KEPT, _KEPT_BYTES = 256, 2048
# A message that is no larger may hold what it likes: parsed, it takes some fifty times its bytes at most.
_SMALL_BYTES = 64 << 10
# The parts of a larger one are counted before it is parsed: each empty tensor takes two bytes in it, and a hundred in memory.
_MOST_PARTS = 4096
# Field numbers: the inputs and outputs of a request, and the values of an input, which may be long.
_TENSORS, _CONTENTS_FIELD = (5, 6), 5
# Wrong inputs beyond those that the model has are named, up to so many. No model takes more dimensions.
_SURPLUS, _ID_CHARACTERS = 64, 4096
# The first bytes of fields that hold bytes: raw_input_contents, raw_output_contents, infer_response.
_RAW_INPUT, _RAW_OUTPUT, _INFER_RESPONSE = 7 << 3 | 2, b"\x32", b"\x12"


@dataclass(frozen=True, slots=True)
class Call:
    """A request without its raw tensors: what comes in, what is asked for, and how.

    `listed` holds the values of inputs that came in the message itself, by name.
    """

    served: Served
    given: tuple[Given, ...]
    spans: tuple[Span | None, ...]
    listed: dict[str, Array] | None
    outputs: tuple[str, ...]
    places: dict[str, Span]
    rows: int
    key: Any
    id: str
    timeout: float
    priority: int


class Calls:
    """Reads requests for inference and writes their answers."""

    def __init__(self, models: Models, access: Access, limits: Limits, regions: Regions) -> None:
        self._models, self._access, self._limits, self._regions = models, access, limits, regions
        self._calls: dict[tuple[bytes, bool], Call] = {}
        self._heads: dict[Any, bytes] = {}
        self._generation = models.generation

    def read(self, data: bytes, token: bytes | None) -> tuple[Call, list[Array]]:
        """What a request asks for, and its inputs in the order of the model."""
        if self._generation != self._models.generation:
            self._calls.clear()
            self._heads.clear()
            self._generation = self._models.generation
        head, raw = cut(data)
        if len(head) > _SMALL_BYTES:
            must_be_bounded(head, self._limits.text_bytes)
        call = self._calls.get((head, bool(raw)))
        if call is None:
            call = self._call_of(head, token, has_raw=bool(raw))
        else:
            self._access.check(token, call.served.name)
        if call.places or any(call.spans):
            self._access.check_all(token)
        return call, self._inputs(call, raw)

    def write(self, call: Call, arrays: Sequence[Array]) -> bytes:
        """The answer as the bytes of its message."""
        if sum(array.nbytes for array in arrays) > self._limits.output_bytes:
            raise bad(f"the answer is above the limit of {self._limits.output_bytes} bytes")
        data = [to_bytes(array) for array in arrays]
        parts: list[bytes | memoryview] = [self._head(call, arrays, data)]
        for name, part in zip(call.outputs, data, strict=True):
            # One for every output, or clients would take the next one's for it.
            place = call.places.get(name)
            if place is not None:
                self._regions.write(place, part)
            parts += (_RAW_OUTPUT, b"\0") if place is not None else (_RAW_OUTPUT, _number(len(part)), part)
        return b"".join(parts)

    def _call_of(self, head: bytes, token: bytes | None, *, has_raw: bool) -> Call:
        request = parsed(head, "ModelInferRequest")
        self._access.check(token, request.model_name)
        served = self._models.find(request.model_name, request.model_version or None)
        outputs = served.terms.chosen([output.name for output in request.outputs])
        _must_be_few(request, served)
        given = tuple(Given(tensor.name, tensor.datatype, tuple(tensor.shape)) for tensor in request.inputs)
        rows = served.terms.check(given)
        spans = tuple(span(_params(tensor.parameters), f"input {tensor.name}") for tensor in request.inputs)
        # No contents are a value too: an empty tensor's.
        listed = None
        if not has_raw and None in spans:
            listed = {
                tensor.name: _listed(message.contents, tensor)
                for tensor, place, message in zip(given, spans, request.inputs, strict=True)
                if place is None
            }
        places = {output.name: span(_params(output.parameters), f"output {output.name}") for output in request.outputs}
        shapes = {tensor.name: tensor.shape for tensor in given}
        key = served.key(outputs, [shapes[name] for name in served.signature.input_names], rows)
        call = Call(
            served, given, spans, listed, outputs, {name: place for name, place in places.items() if place is not None},
            rows, key, request.id, *_urgency(request.parameters),
        )  # fmt: skip
        if listed is None and len(head) <= _KEPT_BYTES:
            _make_room(self._calls)
            self._calls[head, has_raw] = call
        return call

    def _inputs(self, call: Call, raw: Sequence[Any]) -> list[Array]:
        if raw and len(raw) != call.spans.count(None):
            raise bad(f"{len(raw)} raw contents for {call.spans.count(None)} inputs")
        rest = iter(raw)
        arrays = dict(call.listed or ())
        for tensor, place in zip(call.given, call.spans, strict=True):
            if place is not None:
                arrays[tensor.name] = _raw(self._regions.read(place), tensor)
            elif raw:
                arrays[tensor.name] = _raw(next(rest), tensor)
        return [arrays[name] for name in call.served.signature.input_names]

    def _head(self, call: Call, arrays: Sequence[Array], data: Sequence[bytes | memoryview]) -> bytes:
        """The answer's message without its raw tensors."""
        keeps = not call.id and not call.places
        key = (call.served, call.outputs, *[array.shape for array in arrays])
        head = self._heads.get(key) if keeps else None
        if head is not None:
            return head
        served = call.served
        response = MESSAGES["ModelInferResponse"](model_name=served.name, model_version=served.version, id=call.id)
        for name, array, part in zip(call.outputs, arrays, data, strict=True):
            output = response.outputs.add(name=name, datatype=served.terms.datatypes[name], shape=array.shape)
            place = call.places.get(name)
            if place is not None:
                output.parameters["shared_memory_region"].string_param = place.region
                output.parameters["shared_memory_byte_size"].int64_param = len(part)
        head = bytes(response.SerializeToString())
        if keeps:
            _make_room(self._heads)
            self._heads[key] = head
        return head


def cut(data: bytes) -> tuple[bytes, Sequence[bytes | memoryview]]:
    """The bytes of a ModelInferRequest without its raw_input_contents, and those."""
    view, end = memoryview(data), len(data)
    heads: list[bytes] = []
    found: list[memoryview] = []
    kept = place = fields = 0
    while place < end:
        start, tag = place, data[place]
        if tag >= 0x80 or tag & 7 != 2:
            return _cut_by_protobuf(data)
        size, place = _size(data, place + 1)
        if size < 0 or place + size > end:
            return _cut_by_protobuf(data)
        if tag == _RAW_INPUT:
            if len(found) == _MOST_PARTS:
                raise bad(f"the request has more than {_MOST_PARTS} raw contents")
            heads.append(data[kept:start])
            found.append(view[place : place + size])
            kept = place + size
        place += size
        fields += 1
        if fields > 2 * _MOST_PARTS:
            raise bad(f"the request has more than {2 * _MOST_PARTS} parts")
    heads.append(data[kept:])
    return b"".join(heads), found


def must_be_bounded(head: bytes, most: int) -> None:
    """Raises a refusal where a message without its raw tensors is larger, or in more parts, than any request needs."""
    if len(head) > most:
        raise Refusal(
            TOO_LARGE, f"{len(head)} bytes beside raw_input_contents are above the limit of {most}; send tensors there"
        )
    parts = 0
    for number, start, end in _fields(head, 0, len(head)):
        parts += 1
        if number not in _TENSORS and end - start > _SMALL_BYTES:
            raise bad(f"field {number} of the request has {end - start} bytes")
        for inner, begin, stop in _fields(head, start, end) if number in _TENSORS else ():
            parts += 1
            if (inner != _CONTENTS_FIELD or number == _TENSORS[1]) and stop - begin > _SMALL_BYTES:
                raise bad(f"field {inner} of a tensor has {stop - begin} bytes")
            if parts > _MOST_PARTS:
                break
        if parts > _MOST_PARTS:
            raise bad(f"the request has more than {_MOST_PARTS} parts")


def _fields(data: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The number of each field that begins with its size, and where its bytes begin and end. Others are refused."""
    while place < end:
        tag, place = _size(data, place)
        size, place = _size(data, place) if tag & 7 == 2 else (-1, place)
        if tag < 0 or size < 0 or place + size > end:
            raise bad("the bytes are no ModelInferRequest")
        yield tag >> 3, place, place + size
        place += size


def _cut_by_protobuf(data: bytes) -> tuple[bytes, Sequence[bytes | memoryview]]:
    """The same for bytes that hold something else than the fields of the protocol, all of which begin with their size."""
    if len(data) > _SMALL_BYTES:
        raise bad("the bytes are no ModelInferRequest")
    request = parsed(data, "ModelInferRequest")
    found = list(request.raw_input_contents)
    request.ClearField("raw_input_contents")
    return request.SerializeToString(), found


def in_stream(message: bytes) -> bytes:
    """The answer as a stream sends it."""
    return b"".join((_INFER_RESPONSE, _number(len(message)), message))


def parsed(data: bytes, kind: str) -> Any:
    """The message of the bytes, or a refusal."""
    try:
        return MESSAGES[kind].FromString(data)
    except DecodeError as error:
        raise bad(f"the bytes are no {kind}") from error


def _size(data: bytes, place: int) -> tuple[int, int]:
    """The number that begins there and the place behind it; -1 for none that a message could have."""
    number = 0
    for shift in range(0, 35, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    return -1, place


def _number(value: int) -> bytes:
    """A size as protobuf writes it."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _params(parameters: Any) -> dict[str, Any]:
    """The parameters with their bare values."""
    return {
        key: getattr(value, value.WhichOneof("parameter_choice") or "int64_param") for key, value in parameters.items()
    }


def _raw(data: Any, tensor: Given) -> Array:
    needed = count(tensor.shape) * NUMPY[tensor.datatype].itemsize
    if tensor.datatype != "BYTES" and len(data) != needed:
        raise bad(f"input {tensor.name}: {len(data)} bytes, and its shape and datatype need {needed}")
    return from_bytes(data, tensor.datatype, tensor.shape, tensor.name)


def _listed(contents: Any, tensor: Given) -> Array:
    place = _CONTENTS.get(tensor.datatype)
    if place is None:
        raise bad(f"input {tensor.name}: {tensor.datatype} is sent in raw_input_contents only")
    values = getattr(contents, place)
    if tensor.datatype in ("FP32", "FP64", "BOOL"):
        return shaped(np.array(values, NUMPY[tensor.datatype]), tensor.shape, tensor.name)
    if tensor.datatype == "BYTES":
        if len(values) != count(tensor.shape):  # before each becomes an object
            raise bad(f"input {tensor.name}: {len(values)} values for the shape {list(tensor.shape)}")
        return from_numbers(list(values), tensor.datatype, tensor.shape, tensor.name)
    wide = np.uint64 if tensor.datatype.startswith("U") else np.int64
    return cast(np.fromiter(values, wide, len(values)), tensor.datatype, tensor.shape, tensor.name)


def _must_be_few(request: Any, served: Served) -> None:
    """Raises a refusal where there are more inputs or dimensions than a model has, or an id is long."""
    most = len(served.terms.inputs) + _SURPLUS
    if len(request.inputs) > most:
        raise bad(f"{len(request.inputs)} inputs; the model takes {served.terms.describe()}")
    if any(len(tensor.shape) > _SURPLUS for tensor in request.inputs):
        raise bad(f"more than {_SURPLUS} dimensions are more than any model takes")
    if len(request.id) > _ID_CHARACTERS:
        raise bad(f"id has more than {_ID_CHARACTERS} characters")


def _urgency(parameters: Any) -> tuple[float, int]:
    """The timeout in seconds and the priority of a request; 0 where it names none."""
    found = _params(parameters)
    timeout, priority = found.get("timeout", 0), found.get("priority", 0)
    if type(timeout) is not int or type(priority) is not int or timeout < 0 or priority < 0:
        raise bad("timeout and priority are whole numbers of 0 or more")
    return timeout / 1e6, priority or DEFAULT_PRIORITY


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
