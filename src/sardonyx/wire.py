"""Why a file does not parse as a model: another format, text, cut off, or nested deeper than protobuf reads."""

from __future__ import annotations

from pathlib import Path

from sardonyx.errors import BrokenModel, InputError, NotAModel

# ModelProto.graph -> GraphProto.node -> NodeProto.attribute -> AttributeProto.g, over and over.
_PATH = (7, 1, 5, 6)
# Protobuf reads messages 100 deep, and the nodes of the nth graph are 3 n - 1 deep.
DEEPEST = 33
_LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}
_VARINT_BYTES = 10
# Nodes are written before weights, so nesting shows early; a bound keeps the answer quick on any file.
_ENOUGH = 4 << 20

_CONVERT = "convert it first: sardonyx convert SOURCE -o model.onnx"
_UNPACK = "unpack it first"
# Where the sign stands in the file, the sign, what such a file is, and what to do about it.
_FORMATS = (
    (0, b"version https://git-lfs", "a pointer of Git LFS, not the model itself", "git lfs pull"),
    (0, b"PK\x03\x04", "a zip archive, as .pt, .pt2, .keras and .npz files are", _CONVERT),
    (0, b"\x89HDF", "an HDF5 file, as .h5 models are", _CONVERT),
    (0, b"\x80\x04", "a Python pickle", _CONVERT),
    (0, b"\x80\x02", "a Python pickle", _CONVERT),
    (0, b"\x93NUMPY", "a numpy array", "give it as an input, not as the model"),
    (0, b"\x1f\x8b", "compressed with gzip", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", _UNPACK),
    (4, b"TFL3", "a TFLite model", _CONVERT),
    (4, b"ORTM", "a model in onnxruntime's own format", "use the .onnx file that it was made from"),
)


def explain(path: Path) -> InputError:
    """The error that fits a file which protobuf refused."""
    with path.open("rb") as file:
        data = file.read(_ENOUGH)
    for start, sign, what, hint in _FORMATS:
        if data.startswith(sign, start):
            return NotAModel(f"{path} is {what}", hint=hint)
    if _is_text(data):
        return NotAModel(f"{path} is a text file, not an ONNX model", hint=f"look at its first line: head -n 1 {path}")
    depth = nested_graphs(data)
    if depth > DEEPEST:
        return BrokenModel(
            f"{path} nests graphs {depth} deep or more; protobuf reads at most {DEEPEST}",
            hint="flatten the nested If, Loop or Scan nodes before the export",
        )
    known = depth > 0
    return (BrokenModel if known else NotAModel)(
        f"{path} is {'a damaged or truncated ONNX model' if known else 'not an ONNX model'}: it does not parse as protobuf",
        hint="copy or export the file again, and compare its size with the original",
    )


def nested_graphs(data: bytes) -> int:
    """How many graphs lie inside one another along the first deepest chain, at most as many as protobuf reads, plus one."""
    chain = [(0, len(data), 0)]
    deepest = 0
    while chain and deepest <= DEEPEST:
        start, end, level = chain.pop()
        wanted = _PATH[0] if level == 0 else _PATH[1 + (level - 1) % 3]
        for field, first, last in _messages(data, start, end):
            if field == wanted:
                deepest = max(deepest, level // 3 + 1)
                chain.append((first, last, level + 1))
    return deepest


def _messages(data: bytes, position: int, end: int) -> list[tuple[int, int, int]]:
    """The length-delimited fields of a message as (number, start, end); stops quietly where the bytes stop making sense."""
    found = []
    while position < end:
        key, position = _varint(data, position, end)
        kind = key & 7
        if kind == 0:
            _, position = _varint(data, position, end)
        elif kind in _FIXED:
            position += _FIXED[kind]
        elif kind == _LENGTH_DELIMITED:
            size, position = _varint(data, position, end)
            found.append((key >> 3, position, min(position + size, end)))
            position += size
        else:
            break
    return found


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number and the position after it. One that never ends, or not within ten bytes, uses up the message."""
    value = 0
    for index, byte in enumerate(data[position : min(position + _VARINT_BYTES, end)]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    return value, end


def _is_text(data: bytes) -> bool:
    head = data[:4096]
    printable = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in head)
    return printable >= 0.97 * len(head)
