"""A server on this machine for tests: started on free ports, with small models, and ended with the block."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.model import Model
from sardonyx.serve.options import Options
from sardonyx.serve.server import Server, run_loop

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
WEIGHTS = "<float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
TEXTS = {
    "tiny": f"(float[n,4] x) => (float[n,3] y) {WEIGHTS} {{ h = MatMul(x, w) y = Relu(h) }}",
    "pair": "(float[n,2] a, int64[n,2] b) => (float[n,2] sum, int64[n,2] twice) "
    "{ c = Cast<to = 1>(b) sum = Add(a, c) twice = Add(b, b) }",
    "text": "(string[n,m] words) => (string[n,m] same) { same = Identity(words) }",
    "half": "(float16[n,2] x) => (float16[n,2] y) { y = Add(x, x) }",
    "flags": "(bool[n] x, uint8[n] u, double[n] d) => (bool[n] y, uint8[n] v, double[n] e) "
    "{ y = Not(x) v = Add(u, u) e = Neg(d) }",
    # The rows of a batch change each other: each is less the mean of all.
    "mixing": "(float[n,2] x) => (float[n,2] y) { m = ReduceMean<keepdims = 1>(x, zero) y = Sub(x, m) }",
    # Fails on an index above 3, which only a run finds out.
    "picky": "(int64[n] i) => (float[n] y) <float[4] w = {10,20,30,40}> { y = Gather(w, i) }",
    "fixed": "(float[1,2] x) => (float[1,2] y) { y = Relu(x) }",
}
TEXTS["mixing"] = TEXTS["mixing"].replace("=> (float[n,2] y)", "=> (float[n,2] y) <int64[1] zero = {0}>")


# Seconds after which a connection that nobody answers is a failure, on the slowest machine.
PATIENCE = 120


def until(true: Callable[[], object]) -> None:
    """Waits as long as it takes; the time limit of the test ends what never comes true."""
    while not true():
        time.sleep(0.005)


def mixing_by(share: str) -> str:
    """The rows of a batch change each other by this share: to each is added as much of the mean of all."""
    return (
        f"(float[n,2] x) => (float[n,2] y) <int64[1] zero = {{0}}, float share = {{{share}}}> "
        "{ m = ReduceMean<keepdims = 1>(x, zero) p = Mul(m, share) y = Add(x, p) }"
    )


def save(name: str, path: Path) -> Path:
    return Model.from_text(HEAD + TEXTS[name]).save(path)


def repository(folder: Path, names: tuple[str, ...] = tuple(TEXTS)) -> Path:
    """Every small model in version 1, and `tiny` in version 2 as well."""
    for name in names:
        versions = ("1", "2") if name == "tiny" else ("1",)
        for version in versions:
            (folder / name / version).mkdir(parents=True)
            save(name, folder / name / version / "model.onnx")
    return folder


@dataclass
class Running:
    """A server, and the ways to talk to it."""

    server: Server
    loop: asyncio.AbstractEventLoop

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.server.ports['http']}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.server.ports['grpc']}"

    @property
    def control(self) -> str:
        return f"127.0.0.1:{self.server.ports['control']}"

    def wait(self, work: Any) -> Any:
        """The result of a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def raw(self, data: bytes, *, port: str = "http", end: bool = False) -> bytes:
        """Everything that comes back for these bytes until the server closes; `end` closes our side first."""
        with socket.create_connection(("127.0.0.1", self.server.ports[port]), timeout=PATIENCE) as client:
            client.sendall(data)
            if end:
                client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    def ask(
        self, method: str, path: str, body: bytes = b"", *, headers: dict[str, str] | None = None, port: str = "http"
    ) -> Answer:
        """One request on a connection of its own."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
        return Answer.of(self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body, port=port))

    def post(self, path: str, message: Any, **options: Any) -> Answer:
        return self.ask("POST", path, json.dumps(message).encode(), **options)

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)


@dataclass
class Answer:
    """What came back: the status, the headers in small letters, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    rest: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> Answer:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers["content-length"])
        return cls(int(first.split()[1]), headers, body[:length], body[length:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def running(source: Path, **options: Any) -> Iterator[Running]:
    """The server, in a thread of its own."""
    started: list[Running | BaseException] = []
    ready, told = threading.Event(), []

    async def serve() -> None:
        try:
            server = Server(Options(source, **{"port": 0, "grpc_port": None, "threads": 1, **options}))
            await server.start()
        except BaseException as error:  # noqa: BLE001  raised again in the test's own thread
            started.append(error)
            ready.set()
            return
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        told.append(lambda: loop.call_soon_threadsafe(end.set))
        started.append(Running(server, loop))
        ready.set()
        await end.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: run_loop(serve()))
    thread.start()
    ready.wait()
    try:
        if isinstance(started[0], BaseException):
            raise started[0]
        yield started[0]
    finally:
        for tell in told:
            tell()
        thread.join()


def tensor(name: str, array: np.ndarray[Any, Any], datatype: str) -> dict[str, Any]:
    """An input in JSON."""
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.ravel().tolist()}


@contextmanager
def bound_port() -> Iterator[int]:
    """A port on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
