"""Initializers that nothing reads, and initializers with the same bytes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import onnx

from sardonyx import external
from sardonyx.check._places import read_names, scopes
from sardonyx.check._subject import Subject
from sardonyx.report import Finding, Severity, human_bytes

CODES = {
    "unused-initializer": "The model carries a tensor that nothing reads.",
    "duplicate-initializer": "The model carries the same tensor more than once.",
}
# Equal scalars and axes are common and cost nothing.
SMALLEST = 1024
_WORTH_A_WARNING = 1 << 20
_PIECE = 1 << 20
_SAMPLE = 4096
_SHOWN = 3
_EXTERNAL = onnx.TensorProto.EXTERNAL


def findings(subject: Subject) -> Iterator[Finding]:
    """Tensors that make the model larger for nothing. Bytes outside the model are read in pieces, and only where sizes agree."""
    graphs = [scope.graph for scope in scopes(subject.proto)]
    unused = [tensor for graph in graphs for tensor in _unused(graph)]
    if unused:
        message = f"nothing reads {_listed(unused)}"
        yield _finding("unused-initializer", unused, message, "export the model again without them")
    if subject.trouble:
        return
    groups = _equal([tensor for graph in graphs for tensor in graph.initializer], subject.path.parent)
    extra = [tensor for group in groups for tensor in group[1:]]
    if extra:
        kept = groups[0]
        message = f"{len(extra)} repeat the bytes of another, as {kept[1].name} those of {kept[0].name}"
        yield _finding("duplicate-initializer", extra, message, "share one initializer between the nodes")


def _finding(code: str, tensors: list[onnx.TensorProto], message: str, hint: str) -> Finding:
    wasted = sum(map(_size, tensors))
    severity: Severity = "warning" if wasted >= _WORTH_A_WARNING else "info"
    return Finding(severity, code, f"initializer {tensors[0].name}", f"{message} ({human_bytes(wasted)})", hint)


def _unused(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    read = {name for node in graph.node for name in read_names(node)} | {value.name for value in graph.output}
    return [tensor for tensor in graph.initializer if tensor.name not in read]


def _equal(tensors: Iterable[onnx.TensorProto], folder: Path) -> list[list[onnx.TensorProto]]:
    """Groups of tensors with equal type, shape and bytes. Each round looks closer at fewer tensors."""
    groups = [[tensor for tensor in _stored_apart(tensors) if _size(tensor) >= SMALLEST]]
    for look in (_header, lambda t: _digest(t, folder, _SAMPLE), lambda t: _digest(t, folder, None)):
        groups = [part for group in groups for part in _split(group, look)]
    return groups


def _stored_apart(tensors: Iterable[onnx.TensorProto]) -> Iterator[onnx.TensorProto]:
    """Leaves out tensors that share their bytes in an external file already."""
    seen = set()
    for tensor in tensors:
        if tensor.data_location == _EXTERNAL:
            entry = external.entry(tensor)
            if (entry.location, entry.offset) in seen:
                continue
            seen.add((entry.location, entry.offset))
        yield tensor


def _split(group: list[onnx.TensorProto], look: Callable[[onnx.TensorProto], object]) -> list[list[onnx.TensorProto]]:
    parts: dict[object, list[onnx.TensorProto]] = defaultdict(list)
    for tensor in group:
        parts[look(tensor)].append(tensor)
    return [part for part in parts.values() if len(part) > 1]


def _header(tensor: onnx.TensorProto) -> object:
    return tensor.data_type, tuple(tensor.dims)


def _digest(tensor: onnx.TensorProto, folder: Path, limit: int | None) -> bytes:
    """A hash of the tensor's bytes, of the first `limit` of them if given."""
    hashed = hashlib.blake2b(digest_size=16)
    if tensor.data_location == _EXTERNAL:
        for piece in _pieces(external.entry(tensor), folder, limit):
            hashed.update(piece)
    elif tensor.raw_data:
        hashed.update(memoryview(tensor.raw_data)[:limit])
    else:
        hashed.update(_unnamed(tensor).SerializeToString()[:limit])
    return hashed.digest()


def _pieces(entry: external.ExternalTensor, folder: Path, limit: int | None) -> Iterator[bytes]:
    with (folder / entry.location).open("rb") as file:
        file.seek(entry.offset)
        left = entry.length if limit is None else min(entry.length, limit)
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            yield piece
            left -= len(piece)


def _unnamed(tensor: onnx.TensorProto) -> onnx.TensorProto:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.ClearField("name")
    copy.ClearField("doc_string")
    return copy


def _size(tensor: onnx.TensorProto) -> int:
    """Bytes that the tensor takes, in the model or beside it."""
    return external.entry(tensor).length if tensor.data_location == _EXTERNAL else int(tensor.ByteSize())


def _listed(tensors: list[onnx.TensorProto]) -> str:
    names = ", ".join(tensor.name for tensor in tensors[:_SHOWN])
    return names if len(tensors) <= _SHOWN else f"{names} and {len(tensors) - _SHOWN} more"
