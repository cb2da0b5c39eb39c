"""The server as a command: a process of its own, and what can be seen of it from outside."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from serving import PATIENCE


@dataclass
class Command:
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    port: int = 0

    def predict(self, path: str = "/predict") -> dict[str, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", path, "[1, 2, 3, 4]")
            return dict(json.loads(connection.getresponse().read()))
        finally:
            connection.close()

    def waiting(self) -> int:
        """How many requests lie in the queues, by the server's metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
            found = re.findall(rb"^nv_inference_pending_request_count{.*} ([\d.]+)$", answer.read(), re.MULTILINE)
        return int(sum(map(float, found)))

    def stop(self) -> tuple[int, dict[str, object]]:
        """The exit code and the JSON on stdout, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        answer = self.process.stdout.read()
        return self.process.wait(), json.loads(answer)


@contextmanager
def command(model: Path, *words: str) -> Iterator[Command]:
    line = [sys.executable, "-m", "sardonyx", "serve", str(model), "--port", "0", "--grpc-port", "-1", "--json", *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        found = Command(process)
        assert process.stderr is not None
        for text in process.stderr:
            found.lines.append(text)
            if place := re.search(r"serving on https?://127.0.0.1:(\d+)", text):
                found.port = int(place[1])
                break
        ear = threading.Thread(target=lambda: found.lines.extend(process.stderr or ()))
        ear.start()
        try:
            yield found
        finally:
            process.terminate()
            process.wait()
            ear.join()


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
