"""External data of a model: which files it names, and whether they are there, whole, and inside the model's folder."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from sardonyx.below import Folder
from sardonyx.errors import NotFound, UnsafePath
from sardonyx.report import Finding

_NAMELESS_BITS = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8}


@dataclass(frozen=True)
class ExternalTensor:
    """Where one tensor's bytes lie. The length is that of the file's field or of the shape, whichever is more."""

    name: str
    location: str
    offset: int
    length: int


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Every graph of a model, those inside nodes and functions too. Walks without recursion."""
    nodes = [node for function in model.functions for node in function.node]
    waiting: list[onnx.GraphProto] = [model.graph]
    waiting += [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    while waiting or nodes:
        for attribute in nodes.pop().attribute if nodes else ():
            # Whatever the attribute says its type is: a file can say one thing and hold another.
            if attribute.HasField("g"):
                waiting.append(attribute.g)
            waiting.extend(attribute.graphs)
        if waiting:
            graph = waiting.pop()
            yield graph
            nodes.extend(graph.node)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model: initializers and attributes, in subgraphs and functions too."""
    for function in model.functions:
        yield from _in_attributes(function.node)
    for graph in graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
        yield from _in_attributes(graph.node)


def _in_attributes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def entries(model: onnx.ModelProto) -> list[ExternalTensor]:
    """The tensors whose bytes lie outside the model file."""
    return [entry(tensor) for tensor in tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]


def findings(model: onnx.ModelProto, folder: Path) -> list[Finding]:
    """What is wrong with the external files. One finding per file and kind of trouble, naming its first tensor."""
    looked: dict[str, _Look] = {}
    seen: dict[tuple[str, str], Finding] = {}
    for entry in entries(model):
        look = looked.get(entry.location) or looked.setdefault(entry.location, _look(entry.location, folder))
        trouble = look.trouble or _beyond(entry, look.size)
        if trouble is not None:
            code, message, hint = trouble
            found = Finding("error", code, f"tensor {entry.name}", message, hint)
            seen.setdefault((code, entry.location), found)
    return list(seen.values())


def entry(tensor: onnx.TensorProto) -> ExternalTensor:
    """Where an external tensor's bytes lie."""
    fields = {text(item.key): text(item.value) for item in tensor.external_data}
    length, needed = _number(fields.get("length", "0")), _size(tensor)
    return ExternalTensor(
        text(tensor.name),
        fields.get("location", ""),
        _number(fields.get("offset", "0")),
        length if length < 0 else max(length, needed),
    )


def text(value: str | bytes) -> str:
    """A string of the file. Protobuf gives bytes where they are not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _number(digits: str) -> int:
    """The number of a field, or -1 for one that no file can have."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else -1


def _size(tensor: onnx.TensorProto) -> int:
    """The bytes that the tensor's type and shape need; 0 where its type has no size."""
    return (max(0, math.prod(tensor.dims)) * _bits(tensor.data_type) + 7) // 8


def _bits(element: int) -> int:
    """The size of an element, which the names of most types begin with: INT64, FLOAT8E4M3FN, UINT4."""
    if element not in onnx.TensorProto.DataType.values():
        return 0
    name = onnx.TensorProto.DataType.Name(element)
    digits = re.match(r"[A-Z]+(\d+)", name)
    return int(digits.group(1)) if digits else _NAMELESS_BITS.get(name, 0)


@dataclass(frozen=True)
class _Look:
    """What a look at one file found: its size, or a code, a message and a hint."""

    size: int = 0
    trouble: tuple[str, str, str] | None = None


def _look(location: str, folder: Path) -> _Look:
    """Taken once per file, however many tensors lie in it."""

    def trouble(code: str, message: str, hint: str) -> _Look:
        return _Look(trouble=(code, message, hint))

    if not location:
        return trouble("external-data-missing", "is external but names no file", "save the model again with its data")
    try:
        with Folder(folder) as below:
            return _Look(below.size(location))
    except UnsafePath as error:
        if error.reason == "outside":
            return trouble(
                "external-data-outside",
                f"its external data '{location}' lies outside the model's folder",
                "do not open this model unless you trust its author; move the data beside the model and save it again",
            )
        if error.reason == "link":
            return trouble(
                "external-data-linked",
                f"its external data '{location}' is a link or not a plain file, so it may show another file's bytes",
                f"replace '{location}' by a copy of the file",
            )
        why = error.problem
    except NotFound:
        why = "No such file or directory"
    return trouble(
        "external-data-missing",
        f"its external data '{location}' cannot be read: {why}",
        f"copy '{location}' beside the model",
    )


def _beyond(entry: ExternalTensor, size: int) -> tuple[str, str, str] | None:
    """The trouble with a tensor that needs bytes its file does not have."""
    end = entry.offset + entry.length
    if entry.offset >= 0 and entry.length >= 0 and end <= size:
        return None
    return (
        "external-data-truncated",
        f"needs bytes {entry.offset} to {end} of '{entry.location}', which has {size}",
        "copy the data file again; it is shorter than the model says",
    )
