"""Servers to measure, ours and others, each started in a process of its own on a free port and ended with the block."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _environments import environment
from _serve_models import Request, binary, nested, raw, text

START_SECONDS = 120
# The request for a model of this name.
Ask = Callable[[str], Request]


@dataclass(frozen=True)
class Peer:
    """A server of others: what to install in its own environment, and how it is asked, by form; None for gRPC."""

    script: str
    needs: tuple[str, ...]
    forms: dict[str, Ask | None]
    base: str = sys.executable

    @property
    def python(self) -> Path:
        """Its interpreter; the environment is made where it is missing."""
        return environment(f"serve-{self.script}", "onnxruntime==1.31.1", *self.needs, base=self.base)


PEERS = {
    # Triton brings an interpreter of its own, which the standard library of a newer 3.11 does not suit: Debian's does.
    "PyTriton": Peer(
        "pytriton", ("nvidia-pytriton",), {"binary": binary, "JSON": text, "gRPC": None}, base="/usr/bin/python3.11"
    ),
    "MLServer": Peer("mlserver", ("mlserver",), {"JSON": text, "gRPC": None}),
    "KServe": Peer("kserve", ("kserve==0.21.0",), {"binary": binary, "JSON": text, "gRPC": None}),
    "Ray Serve, HAProxy": Peer("ray", ("ray[serve]==2.60.0",), {"bytes": raw}),
    "LitServe": Peer("litserve", ("litserve",), {"JSON": nested("/v2/models/{name}/infer")}),
    "BentoML": Peer("bentoml", ("bentoml",), {"JSON": nested("/infer")}),
}


@contextmanager
def ours(path: Path, *words: str, grpc: bool = False) -> Iterator[tuple[int, int]]:
    """The port and the process of `sardonyx serve` with one onnxruntime thread; gRPC listens on the port behind, if asked."""
    port = _free_port()
    command = [sys.executable, "-m", "sardonyx", "serve", str(path), "--port", str(port), "--threads", "1"]
    command += ["--grpc-port", str(port + 1) if grpc else "-1", *words]
    place = "gRPC on 127.0.0.1" if grpc else "serving on http://127.0.0.1"
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        assert server.stderr is not None
        for line in server.stderr:
            if place in line:
                break
            sys.stderr.write(line)
        else:
            sys.exit("the server did not start")
        try:
            yield port, server.pid
        finally:
            server.terminate()


@contextmanager
def theirs(peer: Peer, model: Path, name: str) -> Iterator[tuple[int, int]]:
    """The port and the process of a peer that has answered a first request, or `RuntimeError` with what it said last."""
    port, script = _free_port(), Path(__file__).parent / "_serve_peers" / f"{peer.script}_peer.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{peer.python.parent}:{os.environ['PATH']}"}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            [str(peer.python), str(script), str(model), name, str(port)],
            stdout=said, stderr=said, env=environment, start_new_session=True,
        ) as server,
    ):  # fmt: skip
        try:
            _wait(server, port, next(ask for ask in peer.forms.values() if ask is not None)(name), said)
            yield port, server.pid
        finally:
            server.terminate()  # and no other of its processes, so that it can end them in order
            with suppress(subprocess.TimeoutExpired):
                server.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def _wait(server: subprocess.Popen[bytes], port: int, request: Request, said: Any) -> None:
    end, last = time.monotonic() + START_SECONDS, "no answer"
    while time.monotonic() < end and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("POST", request.path, request.body, request.headers)
            answer = connection.getresponse()
            last = f"{answer.status} {answer.read()[:200]!r}"
            if answer.status == 200:
                return
        except (OSError, http.client.HTTPException) as error:
            last = str(error)
        finally:
            connection.close()
        time.sleep(0.5)
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    raise RuntimeError(f"{last}; {lines[-1][:160] if lines else 'it said nothing'}")


def _free_port() -> int:
    """A port with two more free ones behind it, which some peers take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
