"""A file that is no model gets an answer that says what it is."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from sardonyx import wire
from sardonyx.errors import BrokenModel, NotAModel, SardonyxError
from sardonyx.model import Model
from sardonyx.proto import read_proto

RELU = '<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[n] y) { t = Relu(x) y = Abs(t) }'
VALID = Model.from_text(RELU).to_proto().SerializeToString()


def nested(depth: int) -> bytes:
    """A model with `depth` graphs inside one another, built from the inside out as bytes, past protobuf's own limit."""

    def field(number: int, payload: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(payload)) + payload

    graph = b""
    for _ in range(depth - 1):
        attribute = field(1, b"then_branch") + field(6, graph)
        graph = field(1, field(4, b"If") + field(5, attribute))
    return b"\x08\x0a" + field(7, graph)


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def error_of(path: Path, data: bytes) -> SardonyxError:
    path.write_bytes(data)
    with pytest.raises(SardonyxError) as caught:
        read_proto(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"", NotAModel, "is empty"),
        (b"hello, this is no model\n" * 10, NotAModel, "is a text file"),
        (b"<!DOCTYPE html><html>404</html>", NotAModel, "is a text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", NotAModel, "Git LFS"),
        (b"PK\x03\x04" + bytes(40), NotAModel, "zip archive"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), NotAModel, "HDF5"),
        (b"\x80\x04\x95" + bytes(40), NotAModel, "pickle"),
        (b"\x93NUMPY\x01\x00v\x00", NotAModel, "numpy array"),
        (b"\x1f\x8b\x08\x00" + bytes(40), NotAModel, "gzip"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(40), NotAModel, "TFLite"),
        (b"\x18\x00\x00\x00ORTM" + bytes(40), NotAModel, "onnxruntime's own format"),
        (b"\xff" * 3_000_000, NotAModel, "not an ONNX model"),
        (b"\x80" * 3_000_000, NotAModel, "not an ONNX model"),
        (VALID[: len(VALID) // 2], BrokenModel, "damaged or truncated"),
        (VALID[:-1], BrokenModel, "damaged or truncated"),
        (b"\x08\x0a", NotAModel, "has no graph"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_broken_file_is_named_for_what_it_is(
    tmp_path: Path, data: bytes, kind: type[SardonyxError], words: str
) -> None:
    error = error_of(tmp_path / "m.onnx", data)
    assert type(error) is kind
    assert words in error.message


@pytest.mark.parametrize("depth", [wire.DEEPEST + 2, 100, 500])
def test_a_graph_nested_deeper_than_protobuf_reads_says_so(tmp_path: Path, depth: int) -> None:
    error = error_of(tmp_path / "m.onnx", nested(depth))
    assert isinstance(error, BrokenModel)
    assert f"nests graphs {wire.DEEPEST + 1} deep or more; protobuf reads at most {wire.DEEPEST}" in error.message


@pytest.mark.parametrize("depth", [1, 2, 10, wire.DEEPEST])
def test_nesting_that_protobuf_reads_is_counted_exactly(depth: int) -> None:
    data = nested(depth)
    assert onnx.ModelProto.FromString(data).ir_version == 10
    assert wire.nested_graphs(data) == depth


@given(st.binary(max_size=400))
def test_counting_never_fails_whatever_the_bytes(data: bytes) -> None:
    assert 0 <= wire.nested_graphs(data) <= wire.DEEPEST + 1


@given(st.integers(0, len(VALID) - 1), st.integers(1, 255), st.integers(0, len(VALID)))
def test_a_damaged_model_loads_or_gives_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, position: int, flip: int, length: int
) -> None:
    data = bytearray(VALID)
    data[position] ^= flip
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(bytes(data[:length]))
    try:
        model = Model.load(path)
    except SardonyxError:
        return
    assert model.signature.inputs is not None


def test_weights_that_come_before_the_nesting_are_stepped_over() -> None:
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1000], [0.5] * 1000)
    inner = helper.make_graph([], "inner", [], [])
    branches = {"then_branch": inner, "else_branch": inner}
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "outer", [], [], [tensor])
    assert wire.nested_graphs(helper.make_model(graph).SerializeToString()) == 2
