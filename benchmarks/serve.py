"""What a request costs the server: processor time and rate, beside onnxruntime alone in one process.

Prints its section of RESULTS.md. The server runs in a process of its own with one onnxruntime thread; 16 connections keep it
busy with one request each. Its processor time is that of all of its threads, as the system counts it.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import orjson
import uvloop
from onnx import helper, numpy_helper

from sardonyx.run.session import Session, Settings

CONNECTIONS = 16
SECONDS = float(os.environ.get("SARDONYX_BENCH_SECONDS", "1.5"))
ROUNDS = 5
TICKS = os.sysconf("SC_CLK_TCK")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Load:
    """What was measured while requests came: how many a second, and the processor's microseconds for each."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Row:
    """Medians of all rounds, and the median of the ratios of server to onnxruntime within each round."""

    name: str
    raw: float
    server: float
    ratio: float
    rate: float

    def show(self, goal: str = "") -> None:
        print(
            f"| {self.name} | {self.raw:.0f} | {self.server:.0f} | {self.ratio:.2f} | {goal} | {self.rate:.0f} |",
            flush=True,
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        paths = {name: _save(make(), Path(scratch) / f"{name}.onnx") for name, make in MODELS.items()}
        tiny, wide, image = _drawn(1, 16), _drawn(1, 2048), _drawn(1, 3, 224, 224)
        print("## Serve\n")
        print(
            "Processor time of the server a request, all threads and the kernel's part in it, one onnxruntime thread,"
        )
        print(
            f"{CONNECTIONS} connections with one request each, against onnxruntime called in a loop. Both take turns in"
        )
        print(f"{ROUNDS} rounds; the ratio is the median of theirs.\n")
        print(
            "| model and transport | onnxruntime alone, us | server, us | ratio | goal | requests/s |\n|---|---|---|---|---|---|"
        )
        with _server(paths["tiny"]) as server:
            raw = _raw(paths["tiny"], tiny)
            _rounds("tiny MLP, binary", raw, _drive(server, _binary("tiny", tiny))).show("at most 100 us")
            _rounds("tiny MLP, JSON", raw, _drive(server, _json("tiny", tiny))).show()
        raw = _raw(paths["wide"], _drawn(16, 2048), rows=16)
        with _server(paths["wide"]) as server, _server(paths["wide"], "--max-batch", "1") as single:
            together = _rounds("wide MLP, binary; alone is a row of 16", raw, _drive(server, _binary("wide", wide)))
            alone = _rounds("wide MLP, never batched", _raw(paths["wide"], wide), _drive(single, _binary("wide", wide)))
        together.show("at most 1.6 times")
        alone.show()
        with _server(paths["image"]) as server:
            raw = _raw(paths["image"], image)
            _rounds("image model, 602 KB binary", raw, _drive(server, _binary("image", image))).show(
                "at most 1.5 times"
            )
            text = _rounds(
                "image model, 150528 floats of JSON", raw, _drive(server, _json("image", image), connections=1)
            )
            text.show("at most 10 ms more")
        print(f"\nBatching gives {together.rate / alone.rate:.1f} times the rate of the wide MLP; the goal is 5.")


def _rounds(name: str, raw: Callable[[], float], drive: Callable[[], Load]) -> Row:
    pairs = [(raw(), drive()) for _ in range(ROUNDS)]
    ratio = statistics.median(load.cpu / alone for alone, load in pairs)
    server, rate = (statistics.median(getattr(load, part) for _, load in pairs) for part in ("cpu", "rate"))
    return Row(name, statistics.median(alone for alone, _ in pairs), server, ratio, rate)


# Models.


def _dense(name: str, sizes: list[int]) -> onnx.ModelProto:
    drawn = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for index, (before, after) in enumerate(pairwise(sizes)):
        weights.append(_weight(drawn, f"w{index}", before, after))
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"h{index}"]))
        nodes.append(helper.make_node("Relu", [f"h{index}"], [f"r{index}"]))
        last = f"r{index}"
    nodes[-1].output[0] = "y"
    return _model(name, nodes, weights, ["n", sizes[0]], ["n", sizes[-1]])


def _convolutional() -> onnx.ModelProto:
    drawn = np.random.default_rng(0)
    weights = [_weight(drawn, "a", 32, 3, 5, 5), _weight(drawn, "b", 32, 32, 3, 3), _weight(drawn, "c", 32, 10)]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], strides=[2, 2]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"], strides=[2, 2]),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["t"]),
        helper.make_node("Flatten", ["t"], ["u"]),
        helper.make_node("MatMul", ["u", "c"], ["y"]),
    ]
    return _model("image", nodes, weights, ["n", 3, 224, 224], ["n", 10])


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "tiny": lambda: _dense("tiny", [16, 32, 4]),
    "wide": lambda: _dense("wide", [2048, 2048, 2048, 10]),
    "image": _convolutional,
}


def _weight(drawn: np.random.Generator, name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array((drawn.standard_normal(shape) / 32).astype(np.float32), name)


def _model(name: str, nodes: list[Any], weights: list[Any], taken: list[Any], given: list[Any]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", 1, taken)],
        [helper.make_tensor_value_info("y", 1, given)],
        weights,
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])


def _save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def _drawn(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _raw(path: Path, array: Array, rows: int = 1) -> Callable[[], float]:
    """Measures the processor's microseconds for a row in a loop of runs."""
    session = Session(path, Settings(threads=1))
    feed = {"x": array}
    for _ in range(20):
        session.run_some(["y"], feed)

    def measure() -> float:
        runs, start, end = 0, time.process_time(), time.perf_counter() + SECONDS / 3
        while time.perf_counter() < end:
            session.run_some(["y"], feed)
            runs += 1
        return (time.process_time() - start) / runs / rows * 1e6

    return measure


# Requests.


def _binary(name: str, array: Array) -> bytes:
    head = orjson.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": array.shape,
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": array.nbytes},
                }
            ],
            "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
        }
    )
    return _request(name, head + array.tobytes(), f"Inference-Header-Content-Length: {len(head)}\r\n")


def _json(name: str, array: Array) -> bytes:
    tensor = {"name": "x", "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}
    return _request(name, orjson.dumps({"inputs": [tensor]}), "")


def _request(name: str, body: bytes, extra: str) -> bytes:
    lines = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\nUser-Agent: benchmark\r\nAccept: */*\r\n"
    return (
        f"{lines}Content-Type: application/octet-stream\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body
    )


# Load.


class _Client(asyncio.Protocol):
    """Sends the same request over and over, one at a time. The answers are all of one length."""

    def __init__(self, request: bytes) -> None:
        self.request, self.answers, self.length, self.got = request, 0, 0, b""
        self.failed: bytes | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.got += data
        if not self.length:
            head, mark, _ = self.got.partition(b"\r\n\r\n")
            if not mark:
                return
            found = re.search(rb"content-length: (\d+)", head.lower())
            self.length = len(head) + 4 + (int(found[1]) if found else 0)
        if len(self.got) >= self.length:
            if not self.got.startswith(b"HTTP/1.1 200"):
                self.failed = self.got
                self.transport.close()
                return
            self.got = b""
            self.answers += 1
            self.transport.write(self.request)


def _drive(server: tuple[int, int], request: bytes, connections: int = CONNECTIONS) -> Callable[[], Load]:
    """Measures the server, by port and process, under the request."""
    port, pid = server

    async def drive() -> Load:
        loop = asyncio.get_running_loop()
        clients = [
            (await loop.create_connection(lambda: _Client(request), "127.0.0.1", port))[1] for _ in range(connections)
        ]
        await asyncio.sleep(SECONDS / 4)
        answers, spent, started = sum(client.answers for client in clients), _cpu(pid), time.perf_counter()
        await asyncio.sleep(SECONDS)
        answers, spent = sum(client.answers for client in clients) - answers, _cpu(pid) - spent
        rate = answers / (time.perf_counter() - started)
        for client in clients:
            if client.failed:
                sys.exit(client.failed.decode(errors="replace"))
            client.transport.abort()
        return Load(rate, spent / answers * 1e6)

    return lambda: uvloop.run(drive())  # type: ignore[no-any-return]


def _cpu(pid: int) -> float:
    """Seconds that the process has computed, its threads and the kernel's part included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def _server(path: Path, *words: str) -> Iterator[tuple[int, int]]:
    command = [
        sys.executable,
        "-m",
        "sardonyx",
        "serve",
        str(path),
        "--port",
        "0",
        "--grpc-port",
        "-1",
        "--threads",
        "1",
    ]
    with subprocess.Popen([*command, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        assert server.stderr is not None
        for line in server.stderr:
            found = re.search(r"serving on http://127.0.0.1:(\d+)", line)
            if found:
                break
            sys.stderr.write(line)
        else:
            sys.exit("the server did not start")
        try:
            yield int(found[1]), server.pid
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
