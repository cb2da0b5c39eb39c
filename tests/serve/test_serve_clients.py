"""Triton's own clients run their calls unchanged, over HTTP and gRPC, plain and asynchronous."""

from __future__ import annotations

import asyncio
import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from serving import Running

pytestmark = pytest.mark.heavy
# `make test` installs them; `make check` must be able to look at this file without.
triton_http = pytest.importorskip("tritonclient.http")
triton_grpc = pytest.importorskip("tritonclient.grpc")
triton_http_aio = pytest.importorskip("tritonclient.http.aio")
triton_grpc_aio = pytest.importorskip("tritonclient.grpc.aio")
shared_memory = pytest.importorskip("tritonclient.utils.shared_memory")
InferenceServerException = pytest.importorskip("tritonclient.utils").InferenceServerException

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = X @ np.arange(1, 13, dtype=np.float32).reshape(4, 3)
KINDS = {"http": triton_http, "grpc": triton_grpc}


@pytest.fixture(params=["http", "grpc"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(server: Running, kind: str) -> Iterator[Any]:
    with KINDS[kind].InferenceServerClient(getattr(server, kind)) as client:
        yield client


def given(kind: str, name: str, array: np.ndarray[Any, Any], datatype: str, **options: Any) -> Any:
    tensor = KINDS[kind].InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, **options)
    return tensor


def test_the_server_and_its_models_are_described(client: Any, kind: str) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny")
    assert client.is_model_ready("tiny", "1")
    assert not client.is_model_ready("none")
    options = {"as_json": True} if kind == "grpc" else {}
    assert client.get_server_metadata(**options)["name"] == "sardonyx"
    metadata = client.get_model_metadata("tiny", **options)
    assert metadata["versions"] == ["1", "2"]
    assert [int(size) for size in metadata["inputs"][0]["shape"]] == [-1, 4]
    config = client.get_model_config("tiny", **options)
    config = config.get("config", config)
    assert config["input"][0]["data_type"] == "TYPE_FP32"


def test_tensors_come_back_right(client: Any, kind: str) -> None:
    answer = client.infer("tiny", [given(kind, "x", X, "FP32")], request_id="seven")
    np.testing.assert_allclose(answer.as_numpy("y"), Y)
    head = answer.get_response(as_json=True) if kind == "grpc" else answer.get_response()
    assert head["id"] == "seven"
    assert head["model_version"] == "2"


def test_chosen_outputs_and_two_inputs(client: Any, kind: str) -> None:
    a, b = np.array([[1.5, 2]], np.float32), np.array([[3, 4]], np.int64)
    outputs = [KINDS[kind].InferRequestedOutput("twice")]
    answer = client.infer("pair", [given(kind, "b", b, "INT64"), given(kind, "a", a, "FP32")], outputs=outputs)
    np.testing.assert_array_equal(answer.as_numpy("twice"), 2 * b)
    assert answer.as_numpy("sum") is None


def test_bytes_and_halves(client: Any, kind: str) -> None:
    words = np.array([["one", "zwei", "très", ""]], object)
    answer = client.infer("text", [given(kind, "words", words, "BYTES")])
    assert [word.decode() for word in answer.as_numpy("same").ravel()] == list(words.ravel())
    halves = np.array([[0.5, -2]], np.float16)
    np.testing.assert_array_equal(client.infer("half", [given(kind, "x", halves, "FP16")]).as_numpy("y"), 2 * halves)


def test_bad_input_is_the_clients_own_exception(client: Any, kind: str) -> None:
    with pytest.raises(InferenceServerException, match=r"input x: shape .*the model takes") as caught:
        client.infer("tiny", [given(kind, "x", X[:, :3], "FP32")])
    assert str(caught.value.status()) in ("400", "StatusCode.INVALID_ARGUMENT")
    with pytest.raises(InferenceServerException, match="no model none"):
        client.infer("none", [given(kind, "x", X, "FP32")])


def test_statistics_grow(client: Any, kind: str) -> None:
    def count() -> int:
        found = client.get_inference_statistics("tiny", "1", **({"as_json": True} if kind == "grpc" else {}))
        return int(found["model_stats"][0].get("inference_count", 0))

    before = count()
    client.infer("tiny", [given(kind, "x", X, "FP32")], model_version="1")
    assert count() == before + 3


def test_compression_both_ways(server: Running) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        for method in ("gzip", "deflate"):
            answer = client.infer(
                "tiny", [given("http", "x", X, "FP32")],
                request_compression_algorithm=method, response_compression_algorithm=method,
            )  # fmt: skip
            np.testing.assert_allclose(answer.as_numpy("y"), Y)


def test_json_tensors_over_http(server: Running) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        outputs = [triton_http.InferRequestedOutput("y", binary_data=False)]
        answer = client.infer("tiny", [given("http", "x", X, "FP32", binary_data=False)], outputs=outputs)
        np.testing.assert_allclose(answer.as_numpy("y"), Y)
        words = np.array([["a", "b"]], object)
        answer = client.infer("text", [given("http", "words", words, "BYTES", binary_data=False)])
        assert [word.decode() for word in answer.as_numpy("same").ravel()] == ["a", "b"]


def test_many_calls_at_once_from_the_threaded_http_client(server: Running) -> None:
    with triton_http.InferenceServerClient(server.http, concurrency=4) as client:
        calls = [client.async_infer("tiny", [given("http", "x", X * n, "FP32")]) for n in range(20)]
        for n, call in enumerate(calls):
            np.testing.assert_allclose(call.get_result().as_numpy("y"), Y * n, rtol=1e-6)


def test_asynchronous_clients(server: Running) -> None:
    async def http() -> list[Any]:
        async with triton_http_aio.InferenceServerClient(server.http) as client:
            calls = [client.infer("tiny", [given("http", "x", X * n, "FP32")]) for n in range(20)]
            return await asyncio.gather(*calls)

    async def grpc() -> list[Any]:
        async with triton_grpc_aio.InferenceServerClient(server.grpc) as client:
            calls = [client.infer("tiny", [given("grpc", "x", X * n, "FP32")]) for n in range(20)]
            return await asyncio.gather(*calls)

    for answers in (asyncio.run(http()), asyncio.run(grpc())):
        for n, answer in enumerate(answers):
            np.testing.assert_allclose(answer.as_numpy("y"), Y * n, rtol=1e-6)


def test_a_grpc_stream_answers_in_order_and_goes_on_after_an_error(server: Running) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        client.async_stream_infer("tiny", [given("grpc", "x", X, "FP32")])
        client.async_stream_infer("tiny", [given("grpc", "x", X[:, :2], "FP32")])
        client.async_stream_infer("tiny", [given("grpc", "x", X * 2, "FP32")])
        first, wrong, last = (answers.get(timeout=serving.PATIENCE) for _ in range(3))
        client.stop_stream()
    np.testing.assert_allclose(first.as_numpy("y"), Y)
    assert "input x" in str(wrong)
    np.testing.assert_allclose(last.as_numpy("y"), Y * 2)


def test_values_in_the_contents_of_a_grpc_message(server: Running) -> None:
    """As clients that were not made by NVIDIA send them."""
    stub = triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub
    import grpc

    pb = triton_grpc.service_pb2
    request = pb.ModelInferRequest(model_name="flags")
    for name, datatype, contents in (
        ("x", "BOOL", {"bool_contents": [True, False]}),
        ("u", "UINT8", {"uint_contents": [1, 2]}),
        ("d", "FP64", {"fp64_contents": [0.5, 1]}),
    ):
        request.inputs.add(name=name, datatype=datatype, shape=[2], contents=contents)
    with grpc.insecure_channel(server.grpc) as channel:
        answer = stub(channel).ModelInfer(request)
        assert list(answer.raw_output_contents[0]) == [0, 1]
        request.inputs[1].contents.uint_contents[0] = 300
        with pytest.raises(grpc.RpcError, match="out of the range of UINT8"):
            stub(channel).ModelInfer(request)


def test_tokens_over_both_transports(models: Path) -> None:
    with serving.running(models, grpc_port=0, tokens=("secret",)) as server:
        for kind, module in KINDS.items():
            with module.InferenceServerClient(getattr(server, kind)) as client:
                assert client.is_server_live()
                with pytest.raises(InferenceServerException, match="token is missing or wrong"):
                    client.infer("tiny", [given(kind, "x", X, "FP32")])
                headers = {"authorization": "Bearer secret"}
                client.infer("tiny", [given(kind, "x", X, "FP32")], headers=headers)
                client.infer("tiny", [given(kind, "x", X, "FP32")], headers={"x-api-key": "secret"})


def test_our_messages_have_the_numbers_and_types_of_the_protocol() -> None:
    from sardonyx.serve.messages import MESSAGES

    theirs = triton_grpc.service_pb2.DESCRIPTOR.message_types_by_name
    config = triton_grpc.model_config_pb2.DESCRIPTOR.message_types_by_name

    def compare(mine: Any, other: Any) -> None:
        for field in mine.fields:
            twin = other.fields_by_name[field.name]
            assert (field.number, field.is_repeated) == (twin.number, twin.is_repeated), field.full_name
            # An enumeration goes over the wire as an int32 does.
            assert field.type in (twin.type, field.TYPE_INT32 if twin.type == field.TYPE_ENUM else None)
            assert bool(field.containing_oneof) == bool(twin.containing_oneof)
        for nested in mine.nested_types:
            compare(nested, other.nested_types_by_name[nested.name])

    for name, message in MESSAGES.items():
        compare(message.DESCRIPTOR, theirs[name] if name in theirs else config[name])


# Shared memory.


@pytest.fixture
def sharing(models: Path) -> Iterator[Running]:
    with serving.running(models, grpc_port=0, shared_memory="sardonyx_test_") as server:
        yield server


def test_tensors_pass_through_shared_memory(sharing: Running, kind: str) -> None:
    key = f"/sardonyx_test_{os.getpid()}_{kind}"
    region = shared_memory.create_shared_memory_region("both", key, X.nbytes + Y.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [X])
        with KINDS[kind].InferenceServerClient(getattr(sharing, kind)) as client:
            client.register_system_shared_memory("both", key, X.nbytes + Y.nbytes)
            status = client.get_system_shared_memory_status(**({"as_json": True} if kind == "grpc" else {}))
            assert "both" in str(status)
            tensor = KINDS[kind].InferInput("x", list(X.shape), "FP32")
            tensor.set_shared_memory("both", X.nbytes)
            output = KINDS[kind].InferRequestedOutput("y")
            output.set_shared_memory("both", Y.nbytes, offset=X.nbytes)
            answer = client.infer("tiny", [tensor], outputs=[output])
            assert answer.get_output("y") is not None
            found = shared_memory.get_contents_as_numpy(region, np.float32, list(Y.shape), offset=X.nbytes)
            np.testing.assert_allclose(found, Y)
            tensor.set_shared_memory("both", X.nbytes, offset=Y.nbytes + 4)
            with pytest.raises(InferenceServerException, match="goes beyond"):
                client.infer("tiny", [tensor])
            client.unregister_system_shared_memory("both")
            with pytest.raises(InferenceServerException, match="no region both"):
                client.infer("tiny", [tensor])
    finally:
        shared_memory.destroy_shared_memory_region(region)


@pytest.mark.parametrize("key", ["other", "/sardonyx_test_/../x", "../etc/passwd", "sardonyx_test_gone", ""])
def test_shared_memory_outside_the_name_space_is_refused(sharing: Running, key: str) -> None:
    with (
        triton_http.InferenceServerClient(sharing.http) as client,
        pytest.raises(InferenceServerException, match=r"outside of what|cannot be opened"),
    ):
        client.register_system_shared_memory("r", key, 16)


def test_a_file_that_is_cut_short_after_it_was_registered_harms_nobody(sharing: Running) -> None:
    path = Path(f"/dev/shm/sardonyx_test_{os.getpid()}_cut")
    path.write_bytes(bytes(64))
    try:
        with triton_http.InferenceServerClient(sharing.http) as client:
            client.register_system_shared_memory("cut", path.name, 64)
            os.truncate(path, 3)
            tensor = triton_http.InferInput("x", [3, 4], "FP32")
            tensor.set_shared_memory("cut", 48)
            with pytest.raises(InferenceServerException, match="cut short"):
                client.infer("tiny", [tensor])
            output = triton_http.InferRequestedOutput("y")
            output.set_shared_memory("cut", 36)
            with pytest.raises(InferenceServerException, match="cut short"):
                client.infer("tiny", [given("http", "x", X, "FP32")], outputs=[output])
            assert client.is_server_live()
    finally:
        path.unlink()


def test_shared_memory_is_off_unless_it_is_asked_for(server: Running, kind: str) -> None:
    with (
        KINDS[kind].InferenceServerClient(getattr(server, kind)) as client,
        pytest.raises(InferenceServerException, match="shared memory is off"),
    ):
        client.register_system_shared_memory("r", "key", 16)
