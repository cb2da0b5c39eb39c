"""Malformed, random, half-open and slow clients: never a fault of the server, a hang or a leak, and no harm to others."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import serving
from sardonyx.serve.messages import MESSAGES, PACKAGE
from sardonyx.serve.options import Batching, Limits
from serving import Answer, Running, tensor, until
from soak import amount

X = np.array([[1, 2, 3, 4]], np.float32)
BODY = json.dumps({"id": "a", "inputs": [tensor("x", X, "FP32")]}).encode()
HEAD = b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
GOOD = HEAD % len(BODY) + b"\r\n" + BODY
FIRST = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}]}
).encode()
BINARY = HEAD % (len(FIRST) + 16) + b"Inference-Header-Content-Length: %d\r\n\r\n" % len(FIRST) + FIRST + X.tobytes()
GRAINS = [
    b"{", b"}", b"[", b"]", b'"', b"\0", b"\r\n", b"-1", b"1e999", b"null", b"NaN", b"true", b"99999999999999999999", b'"FP32"',
    b"\xff\xfe", b"GET ", b"HTTP/1.1", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"[" * 3000, b'{"a":' * 1500,
]  # fmt: skip
ROUNDS = amount(600, 2500)


def mutated(drawn: random.Random, request: bytes) -> bytes:
    """The request with bytes changed, cut, doubled or put in."""
    data = bytearray(request)
    for _ in range(drawn.randint(1, 4)):
        place = drawn.randrange(len(data) or 1)
        match drawn.randrange(4):
            case 0 if data:
                data[place % len(data)] = drawn.randrange(256)
            case 1:
                del data[place : place + drawn.randint(1, 30)]
            case 2:
                data[place:place] = drawn.choice(GRAINS)
            case _:
                data[place:place] = data[place : place + 20]
    return bytes(data)


def in_body(drawn: random.Random) -> bytes:
    """A well-framed request whose JSON is broken."""
    body = mutated(drawn, BODY)
    return HEAD % len(body) + b"\r\n" + body


async def statuses(port: int, data: bytes) -> list[int]:
    """Every status that comes back before the server or our own patience ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        writer.write_eof()
        found = await asyncio.wait_for(reader.read(), 20)
    except (ConnectionError, OSError):
        return []
    finally:
        writer.close()
        with suppress(ConnectionError, OSError):
            await writer.wait_closed()
    return [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]


@pytest.mark.heavy
@pytest.mark.soak
def test_random_requests_never_meet_a_fault_and_leave_nothing_behind(server: Running) -> None:
    port = server.server.ports["http"]
    drawn = random.Random(7)
    requests = [
        data
        for _ in range(ROUNDS)
        for data in (
            mutated(drawn, GOOD),
            mutated(drawn, BINARY),
            in_body(drawn),
            drawn.randbytes(drawn.randint(1, 300)),
        )
    ]

    async def send() -> list[int]:
        gate = asyncio.Semaphore(32)

        async def one(data: bytes) -> list[int]:
            async with gate:
                return await statuses(port, data)

        return [status for found in await asyncio.gather(*map(one, requests)) for status in found]

    seen = asyncio.run(send())
    assert len(seen) > ROUNDS
    assert {status for status in seen if status >= 500} == set()
    assert {200, 400} <= set(seen)
    assert server.post("/v2/models/tiny/infer", json.loads(BODY)).json["outputs"][0]["data"] == [70, 80, 90]
    until(lambda: not any(listener.connections for listener in server.server._listeners))
    assert all(served.waiting == 0 for served in server.server.models.all())


@pytest.mark.heavy
@pytest.mark.soak
def test_random_messages_over_grpc_never_meet_a_fault(server: Running) -> None:
    import grpc

    message = MESSAGES["ModelInferRequest"](
        model_name="tiny",
        inputs=[{"name": "x", "datatype": "FP32", "shape": X.shape}],
        raw_input_contents=[X.tobytes()],
    ).SerializeToString()
    drawn = random.Random(8)
    requests = [
        data for _ in range(ROUNDS) for data in (mutated(drawn, message), drawn.randbytes(drawn.randint(1, 99)))
    ]

    async def send() -> Counter[grpc.StatusCode]:
        async with grpc.aio.insecure_channel(server.grpc) as channel:
            once = channel.unary_unary(f"/{PACKAGE}.GRPCInferenceService/ModelInfer")
            gate = asyncio.Semaphore(32)

            async def one(data: bytes) -> grpc.StatusCode:
                async with gate:
                    return await once(data, timeout=serving.PATIENCE).code()

            found = Counter(await asyncio.gather(*map(one, requests)))
            stream = channel.stream_stream(f"/{PACKAGE}.GRPCInferenceService/ModelStreamInfer")
            said = [
                MESSAGES["ModelStreamInferResponse"].FromString(data) async for data in stream(iter([b"\xff", message]))
            ]
            assert [bool(answer.error_message) for answer in said] == [True, False]
            return found

    seen = asyncio.run(send())
    assert set(seen) <= {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}, seen
    assert all(count > ROUNDS / 100 for count in seen.values())
    assert all(served.waiting == 0 for served in server.server.models.all())


def test_half_open_and_silent_clients_do_not_hold_up_the_others(server: Running) -> None:
    port = server.server.ports["http"]
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    for number, client in enumerate(silent):
        client.sendall(GOOD[: 10 + 3 * number])
    assert server.post("/v2/models/tiny/infer", json.loads(BODY)).status == 200
    for client in silent:
        client.close()
    until(lambda: not any(listener.connections for listener in server.server._listeners))


def test_a_client_that_does_not_read_is_cut_off(models: Path) -> None:
    with serving.running(models, limits=Limits(write_seconds=0.2)) as server:
        many = np.zeros((1_000_000, 4), np.float32)
        entry = {
            "name": "x",
            "datatype": "FP32",
            "shape": list(many.shape),
            "parameters": {"binary_data_size": many.nbytes},
        }
        first = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        head = HEAD % (len(first) + many.nbytes) + b"Inference-Header-Content-Length: %d\r\n\r\n" % len(first)
        with socket.create_connection(("127.0.0.1", server.server.ports["http"])) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(head + first + many.tobytes())
            until(lambda: not server.server._listeners[0].connections)


def test_more_connections_than_allowed_are_told_so(models: Path) -> None:
    with serving.running(models, limits=Limits(connections=2)) as server:
        port = server.server.ports["http"]
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        until(lambda: len(server.server._listeners[0].connections) == 2)
        assert Answer.of(server.raw(b"")).status == 503
        for client in held:
            client.close()


def test_at_twice_the_capacity_every_request_is_answered_or_refused(models: Path) -> None:
    # A batch is never full, so that the four places of the queue stay taken while forty requests come.
    with serving.running(models, batching=Batching(queue=4, delay_seconds=0.25, most=8)) as server:

        async def send() -> list[int]:
            found = await asyncio.gather(*(statuses_kept(server.server.ports["http"]) for _ in range(40)))
            return [status for each in found for status in each]

        seen = asyncio.run(send())
    assert len(seen) == 200
    assert set(seen) == {200, 429}


async def statuses_kept(port: int) -> list[int]:
    """Five requests, one after the other, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for _ in range(5):
        writer.write(GOOD)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found.append(int(head.split()[1]))
        await reader.readexactly(int(head.lower().split("content-length: ")[1].split()[0]))
    writer.close()
    await writer.wait_closed()
    return found
