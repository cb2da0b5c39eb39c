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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from serving import PATIENCE, until
from serving_command import Command, children, command, resident
from soak import LONG, amount

pytestmark = [pytest.mark.heavy, pytest.mark.soak]
WIDTH = 1024
# Requests that wait, and with those of the run under way and of the one that lies ready all that the server holds.
QUEUE = 16
PLACES = QUEUE + 2
# How often memory is looked at.
SAMPLES = 40


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
    lines = (
        f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(head)}\r\n"
    )
    return f"{lines}Content-Length: {len(head) + values.nbytes}\r\n\r\n".encode() + head + values.tobytes()


@dataclass
class Seen:
    """What came back: how often each status, how many answers each accepted request waited for, and what was wrong."""

    statuses: Counter[int] = field(default_factory=Counter)
    before: list[int] = field(default_factory=list)
    wrong: int = 0
    sent: int = 0

    def enough(self, count: int) -> bool:
        return min(self.statuses[200], self.statuses[429]) >= count


class Caller:
    """A connection that asks one thing at a time."""

    def __init__(self, port: int, number: int) -> None:
        self.port = port
        self.values = np.full((1, WIDTH), number + 1, np.float32)
        self.request = binary("model", self.values)

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, seen: Seen) -> None:
        answered = seen.statuses[200]
        seen.sent += 1
        self.writer.write(self.request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await self.reader.readexactly(int(head.split("content-length: ")[1].split()[0]))
        status = int(head.split()[1])
        if status == 200:
            seen.before.append(seen.statuses[200] - answered)
            seen.wrong += not np.array_equal(np.frombuffer(body[-4 * WIDTH :], np.float32), 2 * self.values[0])
        seen.statuses[status] += 1


async def overload(port: int, pid: int, count: int) -> tuple[Seen, list[int]]:
    """Twice as many callers as the server has places, each of whom asks again at once: what came back, and the server's memory.

    It goes on until so many requests were answered and so many refused, however long this takes here.
    """
    callers = [Caller(port, number) for number in range(2 * PLACES)]
    await asyncio.gather(*(caller.open() for caller in callers))
    seen, memory = Seen(), []

    async def insist(caller: Caller) -> None:
        while not seen.enough(count):
            await caller.ask(seen)
            await asyncio.sleep(0.002)
            if seen.statuses[200] >= len(memory) * count / SAMPLES:
                memory.append(resident(pid))

    await asyncio.gather(*map(insist, callers))
    for caller in callers:
        caller.writer.close()
    return seen, memory


@pytest.mark.rest
@pytest.mark.timeout(3600 if LONG else 900)
def test_at_twice_the_capacity_memory_stays_and_everyone_is_answered_or_refused(tmp_path: Path) -> None:
    save(tmp_path / "model" / "1" / "model.onnx", 2.0, layers=60)
    with command(tmp_path, "--queue", str(QUEUE), "--max-batch", "1", "--threads", "1") as server:
        seen, memory = asyncio.run(overload(server.port, server.process.pid, amount(400, 40_000)))
        code, answer = server.stop()
    assert code == 0
    assert seen.wrong == 0
    assert set(seen.statuses) == {200, 429}
    assert sum(seen.statuses.values()) == seen.sent
    assert answer["answered"] == seen.statuses[200]
    # Before an accepted request lie those that have a place, and answers that are on their way to the other callers.
    assert max(seen.before) <= PLACES + 2 * PLACES
    quarter = len(memory) // 4
    assert statistics.median(memory[-quarter:]) < 1.05 * statistics.median(memory[quarter : 2 * quarter])


@pytest.mark.rest
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
                until(lambda: len(moments) > 20 * (len(kills) + 1))
                victim = children(server.process.pid)[0]
                kills.append(time.monotonic())
                os.kill(victim, signal.SIGKILL)
                until(lambda: moments[-1] > kills[-1])
                # Two that die at once would leave nobody: the next one waits until there are two again.
                until(lambda victim=victim: any(f"in the place of {victim}" in line for line in server.lines))
        code, _ = server.stop()
    assert code == 0
    assert wrong == []
    gaps = [min(moment for moment in moments if moment > kill) - kill for kill in kills]
    assert max(gaps) < 1 or not LONG  # a short run may share the machine with others


def test_a_model_swapped_under_load_loses_and_mixes_no_request(tmp_path: Path) -> None:
    save(tmp_path / "model" / "1" / "model.onnx", 1.0)
    done, wrong, versions = threading.Event(), [], set()
    with command(tmp_path, "--control-port", "0", "--control-token", "key") as server:
        place = re.search(r"control on http://127.0.0.1:(\d+)", "".join(server.lines))
        assert place is not None

        def ask(number: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
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

        swaps = amount(4, 100)
        with asking(ask, done):
            until(lambda: versions)
            for version in range(2, swaps + 2):
                save(tmp_path / "model" / str(version) / "model.onnx", float(version))
                (tmp_path / "model" / str(version - 1) / "model.onnx").unlink()
                (tmp_path / "model" / str(version - 1)).rmdir()
                control = http.client.HTTPConnection("127.0.0.1", int(place[1]), timeout=PATIENCE)
                control.request("POST", "/v2/repository/models/model/load", "{}", {"X-API-Key": "key"})
                assert control.getresponse().status == 200
                control.close()
                until(lambda version=version: version in versions)
        code, _ = server.stop()
    assert code == 0
    assert wrong == []
    assert versions == set(range(1, swaps + 2))


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
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        connection.request("POST", "/predict", json.dumps(values.tolist()))
        return np.array(json.loads(connection.getresponse().read())["y"], np.float32)
    finally:
        connection.close()
