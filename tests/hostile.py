"""Bad models: each function writes one into a folder and gives its path. `CORPUS` says what `check` must answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper, parser

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
WEIGHT = b"\0" * 64


@dataclass(frozen=True)
class Bad:
    """How the model is made, and the exit code and the code that `check` must answer with."""

    make: Callable[[Path], Path]
    exit_code: int
    code: str
    # Seconds of computing for the trial load, where the model makes it work without end.
    timeout: float | None = None


def written(folder: Path, model: onnx.ModelProto | str, name: str = "model.onnx") -> Path:
    """The path of the model, given as a message or as ONNX text, after writing it."""
    proto = parser.parse_model(model) if isinstance(model, str) else model
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def empty(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.touch()
    return path


def text(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_text("version 1\nThis is not a model, it only has the name of one.\n")
    return path


def truncated(folder: Path) -> Path:
    path = written(folder, f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Relu(x) b = Neg(a) y = Abs(b) }}")
    path.write_bytes(path.read_bytes()[:-20])
    return path


def cycle(folder: Path) -> Path:
    body = "a = Add(x, c) b = Relu(a) c = Neg(b) y = Abs(c)"
    return written(folder, f"{HEAD} g (float[2] x) => (float[2] y) {{ {body} }}")


def unknown_operator(folder: Path) -> Path:
    return written(folder, f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Rellu(x) }}")


def nested(folder: Path, depth: int = 100) -> Path:
    """`If` in `If` in `If`, built from the inside out as bytes, since protobuf neither reads nor writes them so deep."""

    def field(number: int, payload: bytes) -> bytes:
        return _varint(number << 3 | 2) + _varint(len(payload)) + payload

    inner = helper.make_graph([], "inner", [], []).SerializeToString()
    for _ in range(depth - 1):
        branch = field(1, b"then_branch") + field(6, inner) + b"\xa0\x01\x05"
        inner = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, branch)) + field(2, b"g")
    path = folder / "model.onnx"
    path.write_bytes(b"\x08\x08" + field(7, inner) + field(8, b"\x10\x11"))
    return path


def external(folder: Path, location: str, *, length: int = len(WEIGHT)) -> Path:
    """A model whose one weight lies at `location`."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[16], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        weight.external_data.add(key=key, value=value)
    model = parser.parse_model(f"{HEAD} g (float[16] x) => (float[16] y) {{ y = Add(x, w) }}")
    model.graph.initializer.append(weight)
    return written(folder, model)


def external_missing(folder: Path) -> Path:
    return external(folder, "weights.data")


def external_truncated(folder: Path) -> Path:
    (folder / "weights.data").write_bytes(WEIGHT[:40])
    return external(folder, "weights.data")


def external_above(folder: Path) -> Path:
    _secret(folder)
    (folder / "model").mkdir()
    return external(folder / "model", "../secret.data")


def external_absolute(folder: Path) -> Path:
    return external(folder, str(_secret(folder).absolute()))


def external_symbolic_link(folder: Path) -> Path:
    (folder / "model").mkdir()
    (folder / "model" / "weights.data").symlink_to(_secret(folder))
    return external(folder / "model", "weights.data")


def external_hard_link(folder: Path) -> Path:
    (folder / "model").mkdir()
    os.link(_secret(folder), folder / "model" / "weights.data")
    return external(folder / "model", "weights.data")


def external_linked_folder(folder: Path) -> Path:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "weights.data").write_bytes(WEIGHT)
    (folder / "model").mkdir()
    (folder / "model" / "inside").symlink_to(folder / "elsewhere")
    return external(folder / "model", "inside/weights.data")


def native_crash(folder: Path) -> Path:
    """onnxruntime reads past the inputs of this node and aborts."""
    head = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>'
    body = "y = com.microsoft.QLinearSigmoid(x, s, z, t)"
    return written(folder, f"{head} g (uint8[2] x, float s, uint8 z, float t) => (uint8[2] y) {{ {body} }}")


def stack_overflow(folder: Path, depth: int = 9000) -> Path:
    """Functions that call one another in a chain, deeper than onnxruntime's stack."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], imports)]
    for index in range(1, depth):
        call = helper.make_node(f"f{index - 1}", ["a"], ["b"], domain="f")
        functions.append(helper.make_function("f", f"f{index}", ["a"], ["b"], [call], imports))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="f")], "g", values[:1], values[1:]
    )
    return written(folder, helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8))


def endless_load(folder: Path) -> Path:
    """Constants that onnxruntime multiplies out while it loads: minutes of work from 300 bytes."""
    body = "a = ConstantOfShape<value = float[1] {0.5}>(s) b = MatMul(a, a) c = MatMul(b, b) d = MatMul(c, c) y = Add(d, x)"
    return written(folder, f"{HEAD} g (float[1] x) => (float[m, n] y) <int64[2] s = {{9000, 9000}}> {{ {body} }}")


def function_bomb(folder: Path, levels: int = 30) -> Path:
    """Functions each of which calls the one below twice: two to the thirtieth nodes from 3 KB."""
    head = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
    functions = ['<domain: "f", opset_import: ["": 17]> f0 (a) => (b) { b = Relu(a) }']
    for index in range(1, levels + 1):
        body = f"{{ c = f.f{index - 1}(a) b = f.f{index - 1}(c) }}"
        functions.append(f'<domain: "f", opset_import: ["": 17, "f": 1]> f{index} (a) => (b) {body}')
    return written(folder, f"{head} g (float[2] x) => (float[2] y) {{ y = f.f{levels}(x) }} {' '.join(functions)}")


def memory_bomb(folder: Path, count: int = 12) -> Path:
    """Constants of 1 GB each that onnxruntime keeps while it loads: 12 GB from 1 KB."""
    sizes = ", ".join(f"int64[1] s{i} = {{{260_000_000 + i}}}" for i in range(count))
    body = " ".join(f"c{i} = ConstantOfShape(s{i}) y{i} = Add(c{i}, x)" for i in range(count))
    outputs = ", ".join(f"float[n] y{i}" for i in range(count))
    return written(folder, f"{HEAD} g (float[1] x) => ({outputs}) <{sizes}> {{ {body} }}")


CORPUS = {
    "empty": Bad(empty, 2, "not-a-model"),
    "text": Bad(text, 2, "not-a-model"),
    "truncated": Bad(truncated, 2, "broken-model"),
    "nested": Bad(nested, 2, "broken-model"),
    "cycle": Bad(cycle, 1, "cycle"),
    "unknown operator": Bad(unknown_operator, 1, "unknown-operator"),
    "external data missing": Bad(external_missing, 1, "external-data-missing"),
    "external data truncated": Bad(external_truncated, 1, "external-data-truncated"),
    "external data above the folder": Bad(external_above, 1, "external-data-outside"),
    "external data at an absolute path": Bad(external_absolute, 1, "external-data-outside"),
    "external data behind a symbolic link": Bad(external_symbolic_link, 1, "external-data-linked"),
    "external data behind a hard link": Bad(external_hard_link, 1, "external-data-linked"),
    "external data in a linked folder": Bad(external_linked_folder, 1, "external-data-linked"),
    "native crash": Bad(native_crash, 1, "load-crashed"),
    "stack overflow": Bad(stack_overflow, 1, "load-crashed"),
    "endless load": Bad(endless_load, 1, "load-timeout", timeout=2),
    "function bomb": Bad(function_bomb, 1, "load-timeout", timeout=2),
    "memory bomb": Bad(memory_bomb, 1, "load-memory"),
}


def _secret(folder: Path) -> Path:
    path = folder / "secret.data"
    path.write_bytes(WEIGHT)
    return path


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
