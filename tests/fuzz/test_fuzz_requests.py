"""Requests over HTTP and gRPC, each a valid one with something wrong: the server answers, lives, and holds no more than it may.

Every input follows from the seed and its number alone, so that one can be sent again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import crashing
import serving
from sardonyx.serve.messages import MESSAGES, PACKAGE
from serving_command import Command, command, resident
from soak import amount

SEED = 16
BATCH = 250
HEALTH_SECONDS = 10
MEMORY = 700 << 20
# Refusals, and answers. 503 is for a server that holds as much as it may, and 504 for a run that took too long.
CLEAN = {100, 200, 400, 401, 403, 404, 405, 408, 413, 415, 421, 429, 431, 503, 504}
NAMES = ("tiny", "pair", "text", "flags", "half", "lstm", "gru", "endless")
INPUTS: dict[str, list[tuple[str, str, list[int]]]] = {
    "tiny": [("x", "FP32", [2, 4])], "pair": [("a", "FP32", [2, 2]), ("b", "INT64", [2, 2])],
    "text": [("words", "BYTES", [1, 2])],
    "flags": [("x", "BOOL", [2]), ("u", "UINT8", [2]), ("d", "FP64", [2])], "half": [("x", "FP16", [1, 2])],
    "lstm": [("x", "FP32", [2, 2, 3])], "gru": [("x", "FP32", [2, 2, 3])], "endless": [("x", "INT64", [1])],
}  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**62, 2**63, 2**64, -(2**63), 1.5, 1e308, "", "x", "FP32", "BYTES", "\x1b[2J\n", "é" * 50,
    "a" * 70_000, [], {}, [[]], [[[[[[1]]]]]], [0], [-1], [1] * 70, [1] * 40_000, ["a"] * 9000, [True, 1], [None], [[1], [1, 2]],
    {"a": {"b": []}}, [{}] * 500, [0, 0], [0, 4], [4, 0], [2, 0, 3], [0, 2, 3], [2**31, 2**31],
)  # fmt: skip
HEADERS = (
    ("Content-Encoding", ("gzip", "deflate", "br", "identity", "gzip, gzip", "")),
    ("Inference-Header-Content-Length", ("0", "-1", "9", "99999999999999999999", "x", "1e3", "70000")),
    ("Transfer-Encoding", ("chunked", "gzip", "chunked, chunked")),
    ("Content-Length", ("0", "-1", "5", "999999999", "99999999999999999999", "x", "+3")),
    ("Host", ("evil.example", "", "localhost:1", "[::1", "\xff")),
    ("Origin", ("null", "http://evil.example", "http://localhost", "x")),
    ("Authorization", ("Bearer", "Bearer x", "Basic x", "\xff" * 99)),
    ("Expect", ("100-continue", "x")),
    ("Connection", ("keep-alive", "Upgrade", "x")),
    ("Upgrade", ("websocket", "h2c")),
    ("Content-Type", ("text/plain", "application/octet-stream", "\x01")),
    ("X-Long", ("a" * 50_000,)),
    ("traceparent", ("00-" + "0" * 32 + "-1-1", "\xff")),
)
PATHS = (
    "/v2/models/{}/infer", "/v2/models/{}/versions/1/infer", "/predict/{}", "/v2/models/{}/infer?a=b", "/v2/models/{}",
    "/predict",
    "/v2/models/{}/infer/", "/v2/systemsharedmemory/region/{}/register", "/v2/models/%00/infer", "//",
    "/v2/models/{}/versions/9/infer",
    "/" + "a" * 5000, "/metrics", "/openapi.json", "/v2/models/..%2f{}/infer",
)  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = serving.repository(tmp_path_factory.mktemp("fuzz"), NAMES[:5])
    crashing.recurrent(source / "lstm" / "1" / "model.onnx", "LSTM")
    crashing.recurrent(source / "gru" / "1" / "model.onnx", "GRU")
    crashing.endless(source / "endless" / "1" / "model.onnx")
    return source


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Command]:
    words = ("--grpc-port", "0", "--max-body-mb", "8", "--timeout-ms", "2000", "--threads", "1")
    with command(models, *words) as running:
        yield running


# What is sent.


def values(drawn: random.Random, datatype: str, count: int) -> list[Any]:
    if datatype == "BYTES":
        return [drawn.choice(("a", "", "é", "\n")) for _ in range(count)]
    if datatype == "BOOL":
        return [drawn.random() < 0.5 for _ in range(count)]
    return [drawn.choice((0, 1, 2, 3, 100)) for _ in range(count)]


def message(drawn: random.Random, name: str) -> dict[str, Any]:
    """A valid request."""
    tensors = [
        {"name": each, "datatype": datatype, "shape": list(shape), "data": values(drawn, datatype, int(np.prod(shape)))}
        for each, datatype, shape in INPUTS[name]
    ]
    found: dict[str, Any] = {"inputs": tensors}
    if drawn.random() < 0.3:
        found |= {"id": "7", "parameters": {"timeout": 1_000_000, "priority": drawn.choice((0, 1))}}
    return found


def bent(drawn: random.Random, value: Any, depth: int = 0) -> Any:
    """The value with one part of it changed for an odd one, left out, doubled or put under another name."""
    if depth > 5 or not value or not isinstance(value, dict | list) or drawn.random() < 0.1:
        return drawn.choice(ODD)
    if isinstance(value, list):
        place = drawn.randrange(len(value))
        change = drawn.randrange(4)
        if change == 0:
            return value[:place] + value[place + 1 :]
        if change == 1:
            return value + value * drawn.choice((1, 7))
        return [*value[:place], bent(drawn, value[place], depth + 1), *value[place + 1 :]]
    key = drawn.choice(list(value))
    change = drawn.randrange(8)
    if change == 0:
        return {each: part for each, part in value.items() if each != key}
    if change == 1:
        names = (
            "parameters",
            "shape",
            "data",
            "outputs",
            "id",
            "binary_data_size",
            "shared_memory_region",
            "timeout",
            "\x1b",
        )
        return {**value, drawn.choice(names): drawn.choice(ODD)}
    return {**value, key: bent(drawn, value[key], depth + 1)}


def bitten(drawn: random.Random, data: bytes) -> bytes:
    """The bytes with some of them changed, cut out, doubled or cut off."""
    found = bytearray(data)
    for _ in range(drawn.randint(1, 3)):
        place, size = drawn.randrange(len(found) + 1), drawn.choice((1, 3, 40))
        match drawn.randrange(4):
            case 0:
                found[place : place + 1] = drawn.randbytes(1)
            case 1:
                del found[place : place + size]
            case 2:
                found[place:place] = found[place : place + size]
            case _:
                del found[drawn.randrange(len(found) + 1) :]
    return bytes(found)


def as_binary(drawn: random.Random, asked: dict[str, Any]) -> tuple[bytes, int]:
    """The request with its tensors behind the JSON, and the length of that."""
    data = []
    for each in asked["inputs"]:
        size = drawn.choice((16, 32, 0, 7, 1 << 16))
        data.append(drawn.randbytes(size))
        each.pop("data")
        each["parameters"] = {"binary_data_size": drawn.choice((size, size, size, -1, 1 << 40, "9"))}
    head = json.dumps(asked).encode()
    return head + b"".join(data), len(head)


def packed(drawn: random.Random, body: bytes) -> tuple[bytes, str]:
    """The body compressed: well, not quite, or to a bomb."""
    if drawn.random() < 0.1:
        body = body[:-2] + drawn.choice((b" ", b",1", b",[]", b',""')) * drawn.choice((100_000, 20_000_000))
    encoding = drawn.choice(("gzip", "deflate"))
    found = gzip.compress(body, 1, mtime=0) if encoding == "gzip" else zlib.compress(body, 1)
    return (bitten(drawn, found) if drawn.random() < 0.3 else found), encoding


def over_http(number: int) -> bytes:
    """The bytes of one connection."""
    drawn = random.Random(f"{SEED}-{number}")
    name = drawn.choice(NAMES[:-1]) if drawn.random() < 0.99 else "endless"  # each of which takes its timeout
    asked: Any = message(drawn, name)
    path = drawn.choice(PATHS[:3] if drawn.random() < 0.8 else PATHS).format(name)
    if "predict" in path:
        asked = {each["name"]: each["data"] for each in asked["inputs"]}
    headers: dict[str, str] = {"Host": "localhost"}
    kind = drawn.randrange(10)
    if kind < 5:
        asked = bent(drawn, asked)
    body = json.dumps(asked).encode()
    if kind == 5 and isinstance(asked, dict) and "inputs" in asked:
        body, size = as_binary(drawn, asked)
        headers["Inference-Header-Content-Length"] = str(size + drawn.choice((0, 0, 0, 1, -1)))
    if kind == 6:
        body = bitten(drawn, body)
    if kind == 7:
        body, headers["Content-Encoding"] = packed(drawn, body)
    headers["Content-Length"] = str(len(body))
    if kind == 8:
        for header, choices in drawn.sample(HEADERS, drawn.randint(1, 3)):
            headers[header] = drawn.choice(choices)
    method = "POST" if drawn.random() < 0.95 else drawn.choice(("GET", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW", ""))
    lines = [f"{method} {path} HTTP/1.1", *(f"{header}: {value}" for header, value in headers.items()), "", ""]
    data = "\r\n".join(lines).encode("latin-1") + body
    return bitten(drawn, data) if kind == 9 else data


def over_grpc(number: int) -> bytes:
    """The bytes of one message."""
    drawn = random.Random(f"{SEED}-grpc-{number}")
    name = drawn.choice(NAMES[:-1]) if drawn.random() < 0.99 else "endless"  # each of which takes its timeout
    tensors, raw = [], []
    for each, datatype, shape in INPUTS[name]:
        sizes = [drawn.choice((0, -1, 1, 3, 2**31)) if drawn.random() < 0.2 else size for size in shape]
        entry: dict[str, Any] = {"name": each, "datatype": datatype, "shape": sizes * drawn.choice((1, 1, 1, 40))}
        if drawn.random() < 0.2:
            field, value = drawn.choice(
                (("int64_contents", [1] * 2000), ("bytes_contents", [b"a", b"\xff"]), ("bool_contents", [True]))
            )
            entry["contents"] = {field: value}
        if drawn.random() < 0.1:
            entry["parameters"] = {drawn.choice(("shared_memory_region", "x")): {"string_param": "\x1b" * 20}}
        tensors.append(entry)
        raw.append(drawn.randbytes(drawn.choice((8, 16, 32, 48, 70_000))))
    if drawn.random() < 0.2:
        tensors *= drawn.choice((2, 300))
    outputs = [{"name": drawn.choice(("y", "none", "a" * 9000))}] if drawn.random() < 0.2 else []
    asked = {
        "model_name": name,
        "inputs": tensors,
        "outputs": outputs,
        "raw_input_contents": raw[: drawn.choice((1, 2, 9))],
    }
    if drawn.random() < 0.2:
        asked["id"] = "a" * drawn.choice((1, 9000))
    data = bytes(MESSAGES["ModelInferRequest"](**asked).SerializeToString())
    return bitten(drawn, data) if drawn.random() < 0.5 else data


# How it is sent, and what must hold after each batch.


async def statuses(port: int, data: bytes) -> list[int]:
    """What came back: nothing, where the request did not come to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(serving.PATIENCE):
            found = await reader.read()
    except (ConnectionError, OSError):
        pass
    finally:
        writer.close()
        with suppress(ConnectionError, OSError):
            await writer.wait_closed()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", found)]


async def alive(server: Command, before: int, numbers: range) -> None:
    where = f"after inputs {numbers.start} to {numbers.stop} of seed {SEED}"
    assert server.process.poll() is None, f"the server has ended with {server.process.returncode} {where}"
    head = b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with asyncio.timeout(HEALTH_SECONDS):
        assert await statuses(server.port, head) == [200], where
    held = resident(server.process.pid) - before
    assert held < MEMORY, f"{held >> 20} MiB more {where}"


async def send(
    server: Command, total: int, one: Callable[[int], Any], check: Callable[[int, Any], None]
) -> Counter[Any]:
    before, seen = resident(server.process.pid), Counter[Any]()
    gate = asyncio.Semaphore(16)

    async def ask(number: int) -> Any:
        async with gate:
            return await one(number)

    for start in range(0, total, BATCH):
        numbers = range(start, min(start + BATCH, total))
        for number, found in zip(numbers, await asyncio.gather(*map(ask, numbers)), strict=True):
            check(number, found)
            seen.update(found)
        await alive(server, before, numbers)
    return seen


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.soak
def test_requests_over_http_get_a_clean_answer_and_leave_the_server_as_it_was(server: Command) -> None:
    def check(number: int, found: list[int]) -> None:
        assert set(found) <= CLEAN, f"input {number} of seed {SEED} got {found}"

    seen = asyncio.run(
        send(server, amount(3000, 100_000), lambda number: statuses(server.port, over_http(number)), check)
    )
    assert {200, 400, 413} <= set(seen)
    assert server.predict("/predict/tiny") == {"y": [[70.0, 80.0, 90.0]]}
    assert not [line for line in server.lines if "fault of the server" in line or "Traceback" in line]


@pytest.mark.heavy
@pytest.mark.soak
def test_requests_over_grpc_get_a_clean_answer_and_leave_the_server_as_it_was(server: Command) -> None:
    place = re.search(r"gRPC on (\S+)", "".join(server.lines))
    assert place is not None
    code = grpc.StatusCode
    clean = {
        code.OK,
        code.INVALID_ARGUMENT,
        code.NOT_FOUND,
        code.RESOURCE_EXHAUSTED,
        code.DEADLINE_EXCEEDED,
        code.UNAVAILABLE,
    }

    def check(number: int, found: list[grpc.StatusCode]) -> None:
        assert set(found) <= clean, f"input {number} of seed {SEED} got {found}"

    async def run() -> Counter[Any]:
        async with grpc.aio.insecure_channel(place[1]) as channel:
            infer = channel.unary_unary(f"/{PACKAGE}.GRPCInferenceService/ModelInfer")

            async def one(number: int) -> list[grpc.StatusCode]:
                return [await infer(over_grpc(number), timeout=serving.PATIENCE).code()]

            return await send(server, amount(1000, 100_000), one, check)

    seen = asyncio.run(run())
    assert {code.OK, code.INVALID_ARGUMENT} <= set(seen)
    assert server.predict("/predict/tiny") == {"y": [[70.0, 80.0, 90.0]]}
