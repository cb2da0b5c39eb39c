"""Overload, killed workers and swapped models: nothing is lost, mixed up or left behind. Long in `make soak`."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from serving_command import Command, children, command, resident
from soak import LONG, amount

pytestmark = [pytest.mark.heavy, pytest.mark.soak]
WIDTH = 1024
QUEUE, CONNECTIONS = 16, 64


def save(path: Path, factor: float, layers: int = 0) -> Path:
    """A model that multiplies its input by a factor, and does some work on the way that changes nothing."""
    nodes, last = [helper.make_node("Mul", ["x", "factor"], ["scaled"])], "scaled"
    weights = [numpy_helper.from_array(np.float32(factor), "factor")]
    if layers:
        weights.append(numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "same"))
    for layer in range(layers):
        nodes.append(helper.make_node("MatMul", [last, "same"], [f"h{layer}"]))
        last = f"h{layer}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    ends = [helper.make_tensor_value_info(name, 1, ["n", WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    path.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(model.SerializeToString())
    return path


def binary(name: str, values: np.ndarray[Any, Any]) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": values.shape, "parameters": {"binary_data_size": values.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    lines = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(head)}\r\n"
    return f"{lines}Content-Length: {len(head) + values.nbytes}\r\n\r\n".encode() + head + values.tobytes()


@dataclass
class Seen:
    """What came back: how often each status, the seconds of the accepted, and answers that were wrong."""

    statuses: dict[int, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    sent: int = 0


class Caller:
    """A connection that asks one thing at a time."""

    def __init__(self, port: int, number: int) -> None:
        self.port = port
        self.values = np.full((1, WIDTH), number + 1, np.float32)
        self.request = binary("model", self.values)

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, seen: Seen) -> None:
        started = time.perf_counter()
        seen.sent += 1
        self.writer.write(self.request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await self.reader.readexactly(int(head.split("content-length: ")[1].split()[0]))
        status = int(head.split()[1])
        seen.statuses[status] = seen.statuses.get(status, 0) + 1
        if status == 200:
            seen.seconds.append(time.perf_counter() - started)
            seen.wrong += not np.array_equal(np.frombuffer(body[-4 * WIDTH :], np.float32), 2 * self.values[0])


async def overload(port: int, pid: int, seconds: float) -> tuple[Seen, list[int]]:
    """Requests at twice the rate that the server answers: what came back, and the server's memory."""
    callers = [Caller(port, number) for number in range(CONNECTIONS)]
    await asyncio.gather(*(caller.open() for caller in callers))
    calm = Seen()
    started = time.perf_counter()
    while time.perf_counter() < started + 1:
        await callers[0].ask(calm)
    once = statistics.median(calm.seconds)
    seen, memory, free = Seen(), [], list(callers)

    async def ask(caller: Caller) -> None:
        await caller.ask(seen)
        free.append(caller)

    tasks: set[asyncio.Task[None]] = set()
    started, due, sampled = time.perf_counter(), 0.0, 0.0
    while (now := time.perf_counter() - started) < seconds:
        while due <= now and free:
            task = asyncio.ensure_future(ask(free.pop(0)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due += once / 2
        due = max(due, now - 1)  # what could not be sent for want of a connection is not made up for later
        if now >= sampled:
            memory.append(resident(pid))
            sampled += seconds / 40
        await asyncio.sleep(max(0.0005, due - (time.perf_counter() - started)))
    await asyncio.gather(*tasks)
    for caller in callers:
        caller.writer.close()
    return seen, memory


@pytest.mark.timeout(900)
def test_at_twice_the_capacity_memory_stays_and_everyone_is_answered_or_refused(tmp_path: Path) -> None:
    save(tmp_path / "model" / "1" / "model.onnx", 2.0, layers=60)
    with command(tmp_path, "--queue", str(QUEUE), "--max-batch", "1", "--threads", "1") as server:
        seconds = amount(10, 600)
        seen, memory = asyncio.run(overload(server.port, server.process.pid, seconds))
        code, answer = server.stop()
    assert code == 0
    assert seen.wrong == 0
    assert set(seen.statuses) == {200, 429}
    assert sum(seen.statuses.values()) == seen.sent
    assert seen.statuses[429] > seen.sent / 5
    assert answer["answered"] >= seen.statuses[200]
    # No more than the queue lies before an accepted request, whatever a run costs on this machine now.
    each = seconds / seen.statuses[200]
    assert np.quantile(seen.seconds, 0.99) < 6 * (QUEUE + 2) * each
    quarter = len(memory) // 4
    assert statistics.median(memory[-quarter:]) < 1.05 * statistics.median(memory[quarter : 2 * quarter])


@pytest.mark.timeout(900)
def test_workers_killed_under_load_give_no_wrong_answer_and_others_go_on(tmp_path: Path) -> None:
    save(tmp_path / "model" / "1" / "model.onnx", 2.0)
    done, wrong, moments = threading.Event(), [], []
    with command(tmp_path, "--workers", "2") as server:

        def ask(number: int) -> None:
            values = np.full((1, WIDTH), number, np.float32)
            while not done.is_set():
                try:
                    found = predicted(server, values)
                except (OSError, http.client.HTTPException):
                    continue  # the connection that the killed worker held
                moments.append(time.monotonic())
                time.sleep(0.005)
                if not np.array_equal(found, 2 * values):
                    wrong.append(found)

        kills = []
        with asking(ask, done):
            for _ in range(amount(1, 30)):
                time.sleep(0.5)
                victim = children(server.process.pid)[0]
                kills.append(time.monotonic())
                os.kill(victim, signal.SIGKILL)
                # Two that die at once would leave nobody: the next one waits until there are two again.
                _until(lambda victim=victim: any(f"in the place of {victim}" in line for line in server.lines))
        code, _ = server.stop()
    assert code == 0
    assert wrong == []
    gaps = [min(moment for moment in moments if moment > kill) - kill for kill in kills]
    assert max(gaps) < (1 if LONG else 5)  # a short run may share the machine with others


def test_a_model_swapped_under_load_loses_and_mixes_no_request(tmp_path: Path) -> None:
    save(tmp_path / "model" / "1" / "model.onnx", 1.0)
    done, wrong, versions = threading.Event(), [], set()
    with command(tmp_path, "--control-port", "0", "--control-token", "key") as server:
        place = re.search(r"control on http://127.0.0.1:(\d+)", "".join(server.lines))
        assert place is not None

        def ask(number: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            while not done.is_set():
                tensor = {"name": "x", "datatype": "FP32", "shape": [1, WIDTH], "data": [number] * WIDTH}
                connection.request("POST", "/v2/models/model/infer", json.dumps({"inputs": [tensor]}))
                answer = connection.getresponse()
                found = json.loads(answer.read())
                version = int(found.get("model_version", 0))
                versions.add(version)
                # Version v multiplies by v, so that an answer says which one computed it.
                if answer.status != 200 or found["outputs"][0]["data"] != [number * version] * WIDTH:
                    wrong.append(found)
            connection.close()

        swaps = amount(10, 100)
        with asking(ask, done):
            for version in range(2, swaps + 2):
                save(tmp_path / "model" / str(version) / "model.onnx", float(version))
                (tmp_path / "model" / str(version - 1) / "model.onnx").unlink()
                (tmp_path / "model" / str(version - 1)).rmdir()
                control = http.client.HTTPConnection("127.0.0.1", int(place[1]), timeout=20)
                control.request("POST", "/v2/repository/models/model/load", "{}", {"X-API-Key": "key"})
                assert control.getresponse().status == 200
                control.close()
        code, _ = server.stop()
    assert code == 0
    assert wrong == []
    assert len(versions) > swaps / 2


@contextmanager
def asking(ask: Callable[[int], None], done: threading.Event) -> Iterator[None]:
    """Four threads that ask, each with a number of its own, until the block ends."""
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def predicted(server: Command, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request("POST", "/predict", json.dumps(values.tolist()))
        return np.array(json.loads(connection.getresponse().read())["y"], np.float32)
    finally:
        connection.close()


def _until(true: Any) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
