"""Load on a server from outside, by wrk over HTTP and by grpc.aio, and the processor time that the server spends on it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from _serve_models import Request, drawn

from sardonyx.serve.messages import MESSAGES, PACKAGE

SECONDS = int(os.environ.get("SARDONYX_BENCH_SECONDS", "2"))
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What was measured while requests came: how many a second, and the processor's microseconds for each."""

    rate: float
    cpu: float


def over_http(port: int, pid: int, request: Request, connections: int, seconds: int = SECONDS) -> Load:
    """wrk for some seconds, after a second that does not count."""
    if shutil.which("wrk") is None:
        sys.exit("the benchmark needs wrk: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        body, script = Path(folder) / "body", Path(folder) / "request.lua"
        body.write_bytes(request.body)
        lines = [
            'wrk.method = "POST"',
            f'local file = io.open("{body}", "rb")',
            'wrk.body = file:read("*a")',
            "file:close()",
        ]
        lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in request.headers.items()]
        script.write_text("\n".join(lines))
        words = ["wrk", "-t1", f"-c{connections}", "--timeout", "20s", "-s", str(script)]
        address = f"http://127.0.0.1:{port}{request.path}"
        subprocess.run([*words, "-d1s", address], check=True, capture_output=True)
        before, started = cpu(pid), time.perf_counter()
        done = subprocess.run([*words, f"-d{seconds}s", address], check=True, capture_output=True, text=True)
        spent, took = cpu(pid) - before, time.perf_counter() - started
    found = re.search(r"(\d+) requests in", done.stdout)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    answers = int(found[1]) if found else 0
    if bad or not answers:
        raise RuntimeError(f"{bad[1] if bad else 'all'} of {answers} answers were errors")
    return Load(answers / took, spent / answers * 1e6)


def over_grpc(port: int, pid: int, name: str, connections: int) -> Load:
    """Connections that each ask one thing at a time, from one process."""
    array = drawn(name)
    message = MESSAGES["ModelInferRequest"](
        model_name=name,
        inputs=[{"name": "x", "datatype": "FP32", "shape": array.shape}],
        raw_input_contents=[array.tobytes()],
    ).SerializeToString()

    async def drive() -> Load:
        counts, end = [0] * connections, time.perf_counter() + 1 + SECONDS

        async def ask(number: int) -> None:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
                call = channel.unary_unary(f"/{PACKAGE}.GRPCInferenceService/ModelInfer")
                while time.perf_counter() < end:
                    await call(message)
                    counts[number] += 1

        tasks = [asyncio.ensure_future(ask(number)) for number in range(connections)]
        await asyncio.sleep(1)
        answers, before, started = sum(counts), cpu(pid), time.perf_counter()
        await asyncio.sleep(SECONDS)
        answers, spent, took = sum(counts) - answers, cpu(pid) - before, time.perf_counter() - started
        await asyncio.gather(*tasks)
        if not answers:
            raise RuntimeError(f"no answer in {SECONDS} s")
        return Load(answers / took, spent / answers * 1e6)

    return asyncio.run(drive())


def cpu(pid: int) -> float:
    """Seconds that the process and all below it have computed, the kernel's part included."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(place.parent.name)
        parents.setdefault(int(fields[1]), []).append(number)
        spent[number] = sum(map(int, fields[11:15])) / TICKS
    total, waiting = 0.0, [pid]
    while waiting:
        number = waiting.pop()
        total += spent.get(number, 0.0)
        waiting.extend(parents.get(number, ()))
    return total


def alone(run: Callable[[], object], rows: int = 1) -> float:
    """The processor's microseconds for a row when the model is run in a loop."""
    for _ in range(20):
        run()
    runs, start, end = 0, time.process_time(), time.perf_counter() + SECONDS / 3
    while time.perf_counter() < end:
        run()
        runs += 1
    return (time.process_time() - start) / runs / rows * 1e6
