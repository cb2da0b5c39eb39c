"""Large bodies: whole however they come, each request's its own, and never waited for in vain."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from sardonyx.serve.options import Limits
from serving import Answer, Running, until

WEIGHTS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
ROWS = 40_000


def request(seed: int, rows: int = ROWS) -> tuple[bytes, np.ndarray[Any, Any]]:
    """A request with binary tensors, and the answer's values."""
    array = np.random.default_rng(seed).random((rows, 4), np.float32)
    entry = {"name": "x", "datatype": "FP32", "shape": [rows, 4], "parameters": {"binary_data_size": array.nbytes}}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    lines = (
        "POST /v2/models/tiny/infer HTTP/1.1", "Host: localhost", f"Content-Length: {len(head) + array.nbytes}",
        f"Inference-Header-Content-Length: {len(head)}", "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode() + head + array.tobytes(), array @ WEIGHTS


def connected(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server.ports["http"]), timeout=serving.PATIENCE)


def answered(client: socket.socket) -> np.ndarray[Any, Any]:
    """The values of the next answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(1)
    answer = Answer.of(data)
    left = int(answer.headers["content-length"])
    while len(answer.body) < left:
        answer.body += client.recv(left - len(answer.body))
    assert answer.status == 200, answer.body
    start = int(answer.headers["inference-header-content-length"])
    return np.frombuffer(answer.body, np.float32, offset=start).reshape(-1, 3)


@pytest.mark.parametrize("piece", [3000, 50_000, 400_000])
def test_a_large_body_in_pieces_is_read_whole_and_the_next_small_one_too(server: Running, piece: int) -> None:
    with connected(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for seed, rows in ((1, ROWS), (2, 1), (3, ROWS)):
            data, expected = request(seed, rows)
            for start in range(0, len(data), piece):
                client.sendall(data[start : start + piece])
                time.sleep(0.0005)
            np.testing.assert_allclose(answered(client), expected, rtol=1e-5)


def test_large_and_small_requests_sent_ahead_are_answered_in_order(server: Running) -> None:
    asked = [request(seed, rows) for seed, rows in enumerate((ROWS, 1, ROWS, 2))]
    with connected(server) as client:
        sender = threading.Thread(target=client.sendall, args=(b"".join(data for data, _ in asked),))
        sender.start()
        for _, expected in asked:
            np.testing.assert_allclose(answered(client), expected, rtol=1e-5)
        sender.join()


def test_large_requests_that_come_at_once_each_get_their_own_answer(server: Running) -> None:
    asked = [request(seed) for seed in range(8)]
    clients = [connected(server) for _ in asked]
    for turn in range(3):
        for start in range(0, len(asked[0][0]), 100_000):
            for (data, _), client in zip(asked, clients, strict=True):
                client.sendall(data[start : start + 100_000])
        for (_, expected), client in zip(asked, clients, strict=True):
            np.testing.assert_allclose(answered(client), expected, rtol=1e-5, err_msg=f"turn {turn}")
    for client in clients:
        client.close()


def test_a_large_body_that_stops_coming_is_refused_in_time(tmp_path: Path) -> None:
    data, _ = request(1)
    with serving.running(serving.save("tiny", tmp_path / "tiny.onnx"), limits=Limits(body_seconds=1)) as server:
        for part in (len(data) // 2, len(data) - 1):
            assert Answer.of(server.raw(data[:part])).status == 408


def test_a_client_that_leaves_in_the_middle_of_a_large_body_is_let_go(server: Running) -> None:
    data, _ = request(1)
    listener = server.server._listeners[0]
    before = len(listener.connections)
    with connected(server) as client:
        client.sendall(data[:-1])
        until(lambda: len(listener.connections) > before)
    until(lambda: len(listener.connections) <= before)


def test_a_body_that_goes_on_after_its_refusal_is_not_answered_twice(tmp_path: Path) -> None:
    data, _ = request(1)
    model = serving.save("tiny", tmp_path / "tiny.onnx")
    with serving.running(model, limits=Limits(body_seconds=1)) as server, connected(server) as client:
        client.sendall(data[:-1])
        first = client.recv(1 << 16)
        client.sendall(data[-1:])
        rest = b"".join(iter(lambda: client.recv(1 << 16), b""))
        assert Answer.of(first + rest).status == 408
        assert Answer.of(first + rest).rest == b""
        until(lambda: not server.server._listeners[0].connections)
        assert server.server.models.find("tiny").statistics.runs == 0
