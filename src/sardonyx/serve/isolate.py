"""A model in a process of its own: what ends that process is a refusal here, and the next request starts another."""

from __future__ import annotations

import json
import logging
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from sardonyx import child
from sardonyx.errors import RuntimeRefused
from sardonyx.run.session import Settings
from sardonyx.serve.refusal import BAD, LATE, UNAVAILABLE, Refusal
from sardonyx.serve.runs import TOO_LONG
from sardonyx.serve.tensors import from_bytes, to_bytes
from sardonyx.signature import Array

_log = logging.getLogger(__name__)
# The bytes of the JSON, and of the tensors behind it.
FRAME = struct.Struct("<IQ")
_HEAD_BYTES = 1 << 20


class Isolated:
    """The processes of one model, one for each run that goes on at once. What they answer is not trusted either."""

    def __init__(
        self, path: Path, settings: Settings, datatypes: Mapping[str, str], *, seconds: float, output_bytes: int
    ) -> None:
        self._words = {"path": str(path.absolute()), "settings": asdict(settings)}
        self._datatypes, self._seconds, self._most = datatypes, seconds, output_bytes
        self._lock = threading.Lock()
        self._idle: list[Process] = []
        self._closed = False
        self.give(Process(self._words, self._seconds))

    def fresh(self) -> IsolatedRun:
        return IsolatedRun(self, self._datatypes, self._most)

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        return self.fresh()(outputs, inputs)

    def take(self) -> Process:
        """A process that has the model loaded."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Process(self._words, self._seconds)

    def give(self, process: Process) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(process)
                return
        process.end()

    def close(self) -> None:
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for process in idle:
            process.end()


class IsolatedRun:
    """One run in a process of its own. Stopping it ends the process."""

    def __init__(self, runs: Isolated, datatypes: Mapping[str, str], most: int) -> None:
        self._runs, self._datatypes, self._most = runs, datatypes, most
        self._process: Process | None = None
        self._stopped = False

    def __call__(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        if self._stopped:
            raise Refusal(LATE, TOO_LONG)
        self._process = process = self._runs.take()
        try:
            said, data = process.ask(outputs, inputs, self._most)
        except (OSError, EOFError, ValueError) as error:
            code = process.end()
            if self._stopped:
                raise Refusal(LATE, TOO_LONG) from error
            _log.warning("the process of a model ended with %s and is started again", code)
            raise Refusal(UNAVAILABLE, "the model's process ended on this request", retry_after=1) from error
        if "error" in said:
            self._runs.give(process)
            raise Refusal(BAD, str(said["error"]))
        try:
            found = [
                from_bytes(data[start:end], self._datatypes[name], tuple(shape), name)
                for name, (shape, _, start, end) in zip(outputs, said["tensors"], strict=True)
            ]
        except (TypeError, KeyError, ValueError) as error:
            process.end()
            raise Refusal(UNAVAILABLE, "the model's process gave no tensors", retry_after=1) from error
        self._runs.give(process)
        return found

    def stop(self) -> None:
        self._stopped = True
        if self._process is not None:
            self._process.end()


class Process:
    """A child that has loaded the model, and answers one request at a time."""

    def __init__(self, words: Mapping[str, Any], seconds: float) -> None:
        self._process = subprocess.Popen(
            child.module("sardonyx.serve.isolated", ends_with_thread=False), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            write(self._to, words)
            said, _ = read(self._from, _HEAD_BYTES)
        except (OSError, EOFError, ValueError) as error:
            raise RuntimeRefused(
                f"the process of {words['path']} ended with {self.end()} while it loaded the model",
                hint=f"sardonyx check {words['path']}",
            ) from error
        finally:
            timer.cancel()
        if "error" in said:
            self.end()
            raise RuntimeRefused(str(said["error"]), hint=f"sardonyx check {words['path']}")

    @property
    def _to(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _from(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def ask(self, outputs: Sequence[str], inputs: Sequence[Array], most: int) -> tuple[dict[str, Any], memoryview]:
        write(self._to, {"outputs": list(outputs)}, inputs)
        return read(self._from, most + _HEAD_BYTES)

    def end(self) -> int:
        """The exit code of the process, which is ended if it still runs."""
        with suppress(ProcessLookupError):
            self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return code


def write(to: IO[bytes], message: Mapping[str, Any], tensors: Sequence[Array] = ()) -> None:
    """Sends JSON and tensors. Each tensor is told by its shape, its type, and its place in the bytes behind the JSON."""
    data, places, start = [to_bytes(tensor) for tensor in tensors], [], 0
    for tensor, part in zip(tensors, data, strict=True):
        kind = "object" if tensor.dtype == object else tensor.dtype.str
        places.append((tensor.shape, kind, start, start + len(part)))
        start += len(part)
    head = json.dumps({**message, "tensors": places}).encode()
    to.write(FRAME.pack(len(head), start))
    to.write(head)
    for part in data:
        to.write(part)
    to.flush()


def read(source: IO[bytes], most: int) -> tuple[dict[str, Any], memoryview]:
    """What `write` sent, or `EOFError`."""
    head_bytes, data_bytes = FRAME.unpack(_exactly(source, FRAME.size))
    if head_bytes > _HEAD_BYTES or data_bytes > most:
        raise ValueError("more than was asked for")
    message = json.loads(bytes(_exactly(source, head_bytes)))
    data = _exactly(source, data_bytes)
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")
    return message, data


def _exactly(source: IO[bytes], count: int) -> memoryview:
    memory = bytearray(count)
    view, place = memoryview(memory), 0
    while place < count:
        got = source.readinto(view[place:])  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        place += got
    return view
