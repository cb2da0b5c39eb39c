"""Inference over gRPC below protobuf: what is cut out of a message, what is written, and what is kept of a request."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import DecodeError

import serving
from sardonyx.serve.calls import cut
from sardonyx.serve.messages import MESSAGES, PACKAGE
from sardonyx.serve.refusal import Refusal
from serving import Running

X = np.array([[1, 2, 3, 4]], np.float32)
REQUEST = MESSAGES["ModelInferRequest"]
INFER = f"/{PACKAGE}.GRPCInferenceService/ModelInfer"


def message(*raw: bytes, **more: Any) -> bytes:
    inputs = [{"name": "x", "datatype": "FP32", "shape": X.shape}]
    return bytes(
        REQUEST(**{"model_name": "tiny", "inputs": inputs, "raw_input_contents": raw, **more}).SerializeToString()
    )


def agrees(data: bytes) -> bool:
    """Whether what is cut is what protobuf reads; True as well where both refuse."""
    try:
        expected = REQUEST.FromString(data)
    except DecodeError:
        expected = None
    try:
        head, raw = cut(data)
        found = REQUEST.FromString(head)
    except (Refusal, DecodeError):
        return expected is None
    assert not found.raw_input_contents
    found.raw_input_contents.extend(map(bytes, raw))
    return expected is not None and bool(found == expected)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        message(X.tobytes()),
        message(b"", b"abc", b"x" * 70_000, id="one"),
        b"\x3a\x03abc" + message() + b"\x3a\x00",
        message(b"abc") + b"\x85\x01\x01\x02\x03\x04",  # a field that the protocol does not have
        message(b"abc") + b"\x38\x05",  # the field of raw tensors, as a number
        message(b"abc") + b"\x3a\x83\x80\x00abc",  # a size with more bytes than it needs
        message(b"abc") + b"\x43\x44",  # a group
    ],
)  # fmt: skip
def test_what_is_cut_out_of_a_message_is_what_protobuf_reads(data: bytes) -> None:
    assert agrees(data)
    REQUEST.FromString(data)


@pytest.mark.parametrize(
    "end", [b"\x3a", b"\x3a\x05abc", b"\x3a\xff\xff\xff\xff\xff\x01", b"\x00", b"\x3f", b"\x0a\x02\xff\xff"]
)
def test_what_protobuf_refuses_is_refused(end: bytes) -> None:
    assert agrees(message(b"abc") + end)
    with pytest.raises(DecodeError):
        REQUEST.FromString(message(b"abc") + end)


def test_random_changes_are_read_as_protobuf_reads_them() -> None:
    drawn, seed = random.Random(3), message(X.tobytes(), b"more", id="one", parameters={"a": {"int64_param": 3}})
    for _ in range(3000):
        data = bytearray(seed)
        for _ in range(drawn.randint(1, 3)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        assert agrees(bytes(data)), bytes(data)


def test_an_answer_is_the_message_that_protobuf_would_write(server: Running) -> None:
    inputs = [{"name": "a", "datatype": "FP32", "shape": [2, 2]}, {"name": "b", "datatype": "INT64", "shape": [2, 2]}]
    raw = [np.arange(4, dtype=np.float32).tobytes(), np.arange(4).tobytes()]
    with grpc.insecure_channel(server.grpc) as channel:
        for name in ("", "seven"):  # one of them is kept
            data = REQUEST(model_name="pair", id=name, inputs=inputs, raw_input_contents=raw).SerializeToString()
            for _ in range(2):
                answer = channel.unary_unary(INFER)(data)
                expected = MESSAGES["ModelInferResponse"](
                    model_name="pair", model_version="1", id=name,
                    outputs=[{"name": "sum", "datatype": "FP32", "shape": [2, 2]},
                             {"name": "twice", "datatype": "INT64", "shape": [2, 2]}],
                    raw_output_contents=[np.float32([0, 2, 4, 6]).tobytes(), np.arange(0, 8, 2).tobytes()],
                )  # fmt: skip
                assert answer == expected.SerializeToString()


def test_the_token_is_asked_for_again_when_the_message_is_known(tmp_path: Path) -> None:
    models = serving.repository(tmp_path, ("tiny",))
    with (
        serving.running(models, grpc_port=0, tokens=("secret",)) as server,
        grpc.insecure_channel(server.grpc) as channel,
    ):
        infer = channel.unary_unary(INFER)
        for _ in range(2):
            infer(message(X.tobytes()), metadata=[("x-api-key", "secret")])
            with pytest.raises(grpc.RpcError, match="token is missing or wrong"):
                infer(message(X.tobytes()))


def test_a_known_message_goes_to_the_model_that_is_loaded_now(tmp_path: Path) -> None:
    serving.repository(tmp_path, ("tiny",))
    control: dict[str, Any] = {"headers": {"X-API-Key": "key"}, "port": "control"}
    with (
        serving.running(tmp_path, grpc_port=0, control_port=0, control_token="key") as server,
        grpc.insecure_channel(server.grpc) as channel,
    ):
        infer = channel.unary_unary(INFER)
        version = lambda: MESSAGES["ModelInferResponse"].FromString(infer(message(X.tobytes()))).model_version  # noqa: E731
        assert [version(), version()] == ["2", "2"]
        (tmp_path / "tiny" / "3").mkdir()
        serving.save("tiny", tmp_path / "tiny" / "3" / "model.onnx")
        assert server.post("/v2/repository/models/tiny/load", {}, **control).json == {}
        assert version() == "3"
        assert server.post("/v2/repository/models/tiny/unload", {}, **control).json == {}
        with pytest.raises(grpc.RpcError, match="no model tiny"):
            version()


def test_values_in_the_message_itself_are_never_taken_from_a_request_before(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary(INFER)
        for factor in (1, 2):
            contents = {"fp32_contents": (X * factor).ravel().tolist()}
            inputs = [{"name": "x", "datatype": "FP32", "shape": X.shape, "contents": contents}]
            answer = MESSAGES["ModelInferResponse"].FromString(infer(message(inputs=inputs)))
            assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [
                70 * factor,
                80 * factor,
                90 * factor,
            ]
        infer(message(X.tobytes()))
        with pytest.raises(grpc.RpcError, match="0 values for the shape"):
            infer(message())
        with pytest.raises(grpc.RpcError, match="2 raw contents for 1 inputs"):
            infer(message(X.tobytes(), b""))
