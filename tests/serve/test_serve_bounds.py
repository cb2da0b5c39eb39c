"""What a request may make the server hold, parse and compute: bounded before it is read, whatever it says."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from sardonyx.serve.hosts import Hosts
from sardonyx.serve.messages import MESSAGES, PACKAGE
from sardonyx.serve.meter import Meter
from sardonyx.serve.options import Limits
from sardonyx.serve.parser import Parser
from sardonyx.serve.refusal import Refusal
from serving import Answer, Running, tensor, until
from serving_command import Command, command, resident

INFER = "/v2/models/tiny/infer"
X = np.array([[1, 2, 3, 4]], np.float32)
# More elements than simdjson counts: the copy of such a list overran the heap.
MANY = 17_500_000


def bomb(head: bytes, part: bytes, count: int, tail: bytes) -> bytes:
    """A compressed body that repeats a part, made without holding it."""
    squeezer = zlib.compressobj(1, zlib.DEFLATED, 31)
    found = [squeezer.compress(head)]
    found += [squeezer.compress(part * 100_000) for _ in range(count // 100_000)]
    return b"".join([*found, squeezer.compress(tail), squeezer.flush()])


BOMBS = {
    "shape": (INFER, b'{"inputs": [{"name": "x", "datatype": "FP32", "data": [1], "shape": [1', b",1", b"]}]}"),
    "names": (INFER, b'{"inputs": [{"name": [1', b",1", b"]}]}"),
    "id": (INFER, b'{"inputs": [], "id": [1', b",1", b"]}"),
    "parameters": (INFER, b'{"inputs": [], "parameters": [1', b",1", b"]}"),
    "outputs": (INFER, b'{"inputs": [], "outputs": [{}', b",{}", b"]}"),
    "inputs": (INFER, b'{"inputs": [{}', b",{}", b"]}"),
    "strings": (
        "/v2/models/text/infer",
        b'{"inputs": [{"name": "words", "datatype": "BYTES", "shape": [1, 2], "data": [""',
        b',""',
        b"]}]}",
    ),
    "booleans": (
        "/v2/models/flags/infer",
        b'{"inputs": [{"name": "x", "datatype": "BOOL", "shape": [1], "data": [1',
        b",1",
        b"]}]}",
    ),
    "plain": ("/predict/tiny", b"[1", b",1", b"]"),
    "plain lists": ("/predict/tiny", b"[[]", b",[]", b"]"),
    "plain names": ("/predict/pair", b'{"a": 1', b',"a":1', b"}"),
}


@pytest.fixture(scope="module")
def process(models: Path) -> Iterator[Command]:
    with command(models) as server:
        yield server


def posted(port: int, path: str, body: bytes, **headers: str) -> Answer:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    with socket.create_connection(("127.0.0.1", port), timeout=serving.PATIENCE) as client:
        client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return Answer.of(b"".join(iter(lambda: client.recv(1 << 16), b"")))


@pytest.mark.heavy
@pytest.mark.parametrize("field", BOMBS)
def test_a_long_list_in_any_field_is_refused_and_the_server_lives(process: Command, field: str) -> None:
    path, head, part, tail = BOMBS[field]
    for count in (MANY, 3_000_000):  # above the limit of a text, and below it
        answer = posted(process.port, path, bomb(head, part, count, tail), Content_Encoding="gzip")
        assert answer.status in (400, 413), answer.body
        assert len(answer.body) < 4000
    assert process.process.poll() is None
    assert resident(process.process.pid) < 2 << 30


def test_a_text_that_the_parser_would_miscount_is_never_parsed() -> None:
    parser = Parser(Limits(json_bytes=1 << 40))
    with pytest.raises(Refusal) as refused:
        parser.value(b"[" + b"1," * 0xFFFFFF + b"1]")
    assert refused.value.status == 413


def test_lists_and_objects_of_a_large_text_are_counted_before_they_are_looked_at() -> None:
    with pytest.raises(Refusal, match="lists and objects"):
        Parser(Limits()).value(b"[[]" + b",[]" * (2 << 20) + b"]")


@pytest.mark.heavy
def test_a_compressed_bomb_is_stopped_at_the_limit_while_others_are_answered(process: Command) -> None:
    body = bomb(b"[1", b" ", 1_000_000_000, b"]")
    before = resident(process.process.pid)
    with socket.create_connection(("127.0.0.1", process.port), timeout=serving.PATIENCE) as client:
        head = (
            f"POST /predict/tiny HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}"
        )
        client.sendall(head.encode() + b"\r\nConnection: close\r\n\r\n" + body)
        for _ in range(20):
            assert process.predict("/predict/tiny") == {"y": [[70.0, 80.0, 90.0]]}
        answer = Answer.of(b"".join(iter(lambda: client.recv(1 << 16), b"")))
    assert answer.status == 413
    assert resident(process.process.pid) - before < 400 << 20


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_large_compressed_body_is_read_whole_and_a_cut_one_is_refused(server: Running, encoding: str) -> None:
    rows = 40_000
    body = json.dumps({"inputs": [tensor("x", np.tile(X, (rows, 1)), "FP32")]}).encode()
    packed = gzip.compress(body, 1) if encoding == "gzip" else zlib.compress(body, 1)
    answer = server.ask("POST", INFER, packed, headers={"Content-Encoding": encoding})
    assert answer.json["outputs"][0]["data"] == [70, 80, 90] * rows
    for cut in (len(packed) - 5, len(packed) // 2, 3):
        assert server.ask("POST", INFER, packed[:cut], headers={"Content-Encoding": encoding}).status == 400
    assert server.ask("POST", INFER, packed[:50] + packed[90:], headers={"Content-Encoding": encoding}).status == 400
    until(lambda: server.server._meter.held == 0)


@pytest.mark.heavy
def test_addresses_written_in_many_ways_share_one_reader_and_its_memory(process: Command) -> None:
    body = (
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4'
        + b" " * (7 << 20)
        + b"]}]}"
    )
    sizes = []
    for number in range(24):
        assert posted(process.port, f"{INFER}?v={number}", body).status == 200
        sizes.append(resident(process.process.pid))
    assert sizes[-1] - sizes[4] < 200 << 20


def test_memory_is_given_back_in_a_pause(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("sardonyx.serve.http"), "_TRIM_AFTER", 1 << 20)
    with serving.running(models) as server:
        body = b" " * (2 << 20) + json.dumps({"inputs": [tensor("x", X, "FP32")]}).encode()
        before = server.server._listeners[0].handler._parser._warm  # type: ignore[attr-defined]
        assert server.ask("POST", INFER, body).status == 200
        until(lambda: server.server._meter.since_trim == 0)
        assert server.server._listeners[0].handler._parser._warm is not before  # type: ignore[attr-defined]


def test_bodies_in_flight_are_bounded_for_a_client_and_for_all() -> None:
    meter = Meter(Limits(body_bytes=10, held_bytes=100))
    meter.take("a", 50)
    for client, count in (("a", 1), ("b", 51)):
        with pytest.raises(Refusal) as refused:
            meter.take(client, count)
        assert (refused.value.status, refused.value.retry_after) == (503, 1)
    meter.take("b", 50)
    meter.give("a", 50)
    meter.give("b", 50)
    assert (meter.held, meter._clients) == (0, {})


def test_a_body_beyond_what_is_held_is_refused_before_it_is_read(models: Path) -> None:
    with serving.running(models, limits=Limits(body_bytes=1 << 20, held_bytes=1 << 21)) as server:
        head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 20}\r\n\r\n".encode()
        held = []
        for count in (1, 2):
            held.append(socket.create_connection(("127.0.0.1", server.server.ports["http"])))
            held[-1].sendall(head)
            if count == 1:
                until(lambda: server.server._meter.held == 1 << 20)
        assert Answer.of(held[1].recv(1 << 16)).status == 503
        assert server.post(INFER, {"inputs": [tensor("x", X, "FP32")]}).status == 200
        for client in held:
            client.close()
        until(lambda: server.server._meter.held == 0)
        chunks = b"".join(b"%x\r\n%s\r\n" % (1 << 16, b" " * (1 << 16)) for _ in range(17))
        chunked = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks
        assert Answer.of(server.raw(chunked)).status in (413, 503)
        until(lambda: server.server._meter.held == 0)


# Who may call, before the body.


def test_a_token_is_checked_before_the_body_is_read(models: Path) -> None:
    with serving.running(models, tokens=("key",)) as server:
        for path in (INFER, "/predict/tiny", "/v2/models/none/infer"):
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n"
            assert Answer.of(server.raw(head.encode() + b"\r\n")).status == 401
            assert Answer.of(server.raw(head.encode() + b"Expect: 100-continue\r\n\r\n")).status == 401
        wrong = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}"
        right = "GET /v2/models/tiny HTTP/1.1\r\nHost: localhost\r\nX-API-Key: key\r\nConnection: close\r\n\r\n"
        both = server.raw((wrong + right).encode())  # a small body is read, and the connection goes on
        assert [part[:3] for part in both.split(b"HTTP/1.1 ")[1:]] == [b"401", b"200"]


def test_a_token_is_checked_before_a_message_is_read_over_grpc(models: Path) -> None:
    import grpc

    message = MESSAGES["ModelInferRequest"](
        model_name="tiny",
        inputs=[{"name": "x", "datatype": "FP32", "shape": X.shape}],
        raw_input_contents=[X.tobytes()],
    ).SerializeToString()

    async def ask(place: str) -> None:
        async with grpc.aio.insecure_channel(place) as channel:
            call = channel.stream_unary(f"/{PACKAGE}.GRPCInferenceService/ModelInfer")()
            assert await call.code() == grpc.StatusCode.UNAUTHENTICATED  # nothing was sent yet
            infer = channel.unary_unary(f"/{PACKAGE}.GRPCInferenceService/ModelInfer")
            await infer(message, metadata=(("x-api-key", "key"),))
            live = channel.unary_unary(f"/{PACKAGE}.GRPCInferenceService/ServerLive")
            assert MESSAGES["ServerLiveResponse"].FromString(await live(b"")).live

    with serving.running(models, tokens=("key",), grpc_port=0) as server:
        asyncio.run(ask(server.grpc))


@pytest.mark.parametrize(
    ("bound", "allowed", "host", "good"),
    [
        ("127.0.0.1", (), "localhost:8080", True), ("127.0.0.1", (), "127.0.0.1", True), ("::1", (), "[::1]:80", True),
        ("127.0.0.1", (), "evil.example:8080", False), ("127.0.0.1", (), "localhost.evil.example", False),
        ("127.0.0.1", ("my.example",), "My.Example", True), ("127.0.0.1", ("*",), "any.example", True),
        ("0.0.0.0", (), "model.team.svc.cluster.local", True), ("0.0.0.0", ("my.example",), "evil.example", False),
    ],
)  # fmt: skip
def test_a_name_that_a_stranger_owns_is_not_answered(
    models: Path, bound: str, allowed: tuple[str, ...], host: str, *, good: bool
) -> None:
    del models

    class Asked:
        method, origin = b"GET", None

    Asked.host = host.lower().encode()  # type: ignore[attr-defined]
    hosts: Any = Hosts(bound, allowed)
    if good:
        hosts.check(Asked)
        hosts.check(Asked)
    else:
        with pytest.raises(Refusal) as refused:
            hosts.check(Asked)
        assert refused.value.status == 421


def test_pages_of_other_sites_cannot_use_a_browser_to_call(server: Running) -> None:
    message = {"inputs": [tensor("x", X, "FP32")]}
    place = f"localhost:{server.server.ports['http']}"

    def ask(**headers: str) -> int:
        body = json.dumps(message).encode()
        lines = [f"POST {INFER} HTTP/1.1", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return Answer.of(server.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)).status

    assert ask(Host=place) == 200
    assert ask(Host=place, Origin=f"http://{place}") == 200
    assert ask() == 200  # clients of HTTP/1.0 name no host, and no browser is one
    assert ask(Host="evil.example", Origin="http://evil.example") == 421
    for origin in ("http://evil.example", "null", "https://evil.example:1", f"http://{place}.evil.example", ""):
        assert ask(Host=place, Origin=origin, **{"Content-Type": "text/plain"}) == 403
    assert server.get("/v2/health/live", headers={"Origin": "http://evil.example"}).status == 200


def test_control_is_not_answered_under_a_strangers_name(models: Path) -> None:
    with serving.running(models, control_port=0, control_token="key") as server:
        head = (
            b"POST /v2/repository/index HTTP/1.1\r\nHost: evil.example\r\nX-API-Key: key\r\nContent-Length: 0\r\n\r\n"
        )
        assert Answer.of(server.raw(head, port="control", end=True)).status == 421


def test_a_token_for_one_model_sees_nothing_of_the_others(models: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("all\none tiny\n")
    with serving.running(models, token_file=tmp_path / "tokens", shared_memory="sardonyx_test_") as server:
        one = {"Authorization": "Bearer one"}
        for path in ("/v2/models", "/v2/models/stats", "/openapi.json", "/metrics"):
            text = server.get(path, headers=one).body.decode()
            assert "tiny" in text
            assert not [name for name in serving.TEXTS if name != "tiny" and f'"{name}' in text], path
            assert "pair" in server.get(path, headers={"Authorization": "Bearer all"}).body.decode()
        assert "process_" not in server.get("/metrics", headers=one).body.decode()
        assert server.post("/predict", [1, 2, 3, 4], headers=one).json == {"y": [[70, 80, 90]]}
        for name in ("pair", "none"):  # whether it is there is not told either
            assert server.get(f"/v2/models/{name}", headers=one).status == 403
        assert server.get("/v2/systemsharedmemory/status", headers=one).status == 403
        assert server.get("/v2/systemsharedmemory/status", headers={"Authorization": "Bearer all"}).status == 200
        place = {"shared_memory_region": "somebodys", "shared_memory_byte_size": 16}
        message = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}]}
        assert server.post(INFER, message, headers=one).status in (400, 403)


def test_what_a_client_sent_is_escaped_and_cut_in_answers_and_logs(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    answer = server.post(
        INFER, {"inputs": [{"name": "\x1b[2J\nx" + "a" * 5000, "datatype": "FP32", "shape": [1], "data": [1]}]}
    )
    message = answer.json["error"]
    assert message.isprintable()
    assert "\\x1b[2J\\nx" in message
    assert len(message) < 1100
    assert server.get("/v2/models/%1b%0ared").json["error"].isprintable()
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_strings_of_a_binary_tensor_are_counted_by_its_shape(server: Running) -> None:
    entry = {"name": "words", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": 4 << 20}}
    head = json.dumps({"inputs": [entry]}).encode()
    answer = server.ask(
        "POST",
        "/v2/models/text/infer",
        head + bytes(4 << 20),
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    assert answer.status == 400
    assert "more than 2 elements" in answer.json["error"]
    entry = {"name": "words", "datatype": "BYTES", "shape": [1, 2 << 20], "parameters": {"binary_data_size": 8 << 20}}
    head = json.dumps({"inputs": [entry]}).encode()
    answer = server.ask(
        "POST",
        "/v2/models/text/infer",
        head + bytes(8 << 20),
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    assert "above the limit" in answer.json["error"]


GRPC_BOMBS = {
    "inputs": b"\x2a\x00" * (1 << 20),
    "outputs": b"\x32\x00" * (1 << 20),
    "raw": b"\x0a\x04tiny" + b"\x3a\x00" * (1 << 20),
    "shape": b"\x0a\x04tiny\x2a\x84\x80\x40\x1a\x80\x80\x40" + b"\x01" * (1 << 20),
    "name": b"\x0a\x80\x80\x40" + b"a" * (1 << 20),
    "unknown": b"\x78\x01" * (1 << 19),
    "parameters": b"\x0a\x04tiny" + b"".join(b"\x22\x06\x0a\x04%04x" % number for number in range(1 << 16)),
}


@pytest.mark.parametrize("field", GRPC_BOMBS)
def test_many_parts_of_a_grpc_message_are_refused_before_it_is_parsed(server: Running, field: str) -> None:
    import grpc

    with grpc.insecure_channel(server.grpc, options=[("grpc.max_send_message_length", -1)]) as channel:
        infer = channel.unary_unary(f"/{PACKAGE}.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as refused:
            infer(GRPC_BOMBS[field], timeout=serving.PATIENCE)
    assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert any(word in refused.value.details() for word in ("parts", "raw contents", "bytes"))
