"""Several processes that share the ports: the kernel spreads connections, and one that dies is started again."""

from __future__ import annotations

import json
import logging
import pickle
import signal
import subprocess
import threading
import time
from dataclasses import replace
from types import FrameType
from typing import Any

from sardonyx import child
from sardonyx.errors import UsageError
from sardonyx.report import Report
from sardonyx.serve.options import Options
from sardonyx.serve.server import claim
from sardonyx.serve.service import report, say_where
from sardonyx.serve.trial import as_error

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
# A worker that dies at once, over and over, would keep a CPU busy with starting.
_PAUSE_SECONDS = 1.0


class Worker:
    """A process that serves. It stops when it is told to, or when whoever started it has gone."""

    def __init__(self, options: Options, in_place_of: int | None = None) -> None:
        self.in_place_of = in_place_of
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            child.module("sardonyx.serve.worker", ends_with_thread=False), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.ready = threading.Event()
        self.said: dict[str, Any] = {}
        assert self.process.stdin is not None
        pickle.dump(options, self.process.stdin)
        self.process.stdin.flush()  # and left open: its end is the sign to stop
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tell_to_stop(self) -> None:
        if self.running:
            self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """The requests it has answered, once it has ended."""
        self.process.wait()
        self._ear.join()
        return int(self.said.get("answered", 0))

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.update(json.loads(line))
            if self.in_place_of is not None and not self.ready.is_set():
                _log.warning("worker %d serves in the place of %d", self.process.pid, self.in_place_of)
            self.ready.set()
        self.ready.set()


def supervise(options: Options) -> Report:
    """Starts the workers, starts those again that die, and stops them all when it is told to stop."""
    told = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # Held open, so that nobody else takes the ports while a worker starts again.
    held = [*claim(options.host, options.port)]
    options = replace(options, port=held[0].getsockname()[1])
    workers: list[Worker] = []
    try:
        if options.grpc_port is not None:
            held += (claimed := claim(options.host, options.grpc_port))
            options = replace(options, grpc_port=claimed[0].getsockname()[1])
        workers += [Worker(options) for _ in range(options.workers)]
        _all_ready(workers)
        ports = {"http": options.port} | ({} if options.grpc_port is None else {"grpc": options.grpc_port})
        say_where(options, ports, workers[0].said["models"])
        while not told.wait(_POLL_SECONDS):
            workers = [worker if worker.running else _again(worker, options) for worker in workers]
    finally:
        for worker in workers:
            worker.tell_to_stop()
        answered = sum(worker.wait() for worker in workers)
        for place in held:
            place.close()
    return report(answered)


def _all_ready(workers: list[Worker]) -> None:
    for worker in workers:
        worker.ready.wait()
        error = worker.said.get("error")
        if error is not None:
            raise as_error(error["code"], error["message"], error["hint"])
        if not worker.said:
            raise UsageError("a worker ended before it was ready", hint="start with --workers 1 to see why")


def _again(worker: Worker, options: Options) -> Worker:
    _log.warning("worker %d ended with %s and is started again", worker.process.pid, worker.process.returncode)
    if time.monotonic() - worker.started < _PAUSE_SECONDS:
        time.sleep(_PAUSE_SECONDS)
    return Worker(options, in_place_of=worker.process.pid)
