"""A process that has the framework, asked one thing at a time over a pipe."""

from __future__ import annotations

import json
import os
import select
import signal
import site
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sardonyx import deadline
from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.errors import SourceFailed
from sardonyx.sandbox import Confinement

WORKERS = Path(__file__).parent / "workers"
# What a process may still do after it has closed its pipe, in seconds. Some frameworks hang on their way out.
LEAVING = 5.0


class WorkerDied(Exception):
    """The process ended or was ended without an answer."""

    def __init__(self, reason: str, last_words: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.last_words = last_words


class Worker:
    """Runs `workers/<name>.py`, or the file at a path, in an interpreter. Whatever it prints is kept apart from its answers.

    With a `confinement` the process confines itself before it opens anything; the first folder it may write is its scratch.
    """

    def __init__(
        self,
        name: str | Path,
        *,
        python: Path | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self._log = tempfile.TemporaryFile(prefix="sardonyx-worker-")  # noqa: SIM115  closed in close()
        command = [
            str(python or sys.executable),
            "-I",  # no file of the current folder comes before an installed one; -P is not known to Python 3.9
            "-B",
            "-W",
            "ignore",
            str(WORKERS / "_harness.py"),
            str(name if isinstance(name, Path) else WORKERS / f"{name}.py"),
            *([] if confinement is None else [json.dumps(confinement.to_dict())]),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=folder, start_new_session=True,
            env={**os.environ, "ORT_DISABLE_TELEMETRY": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
                 **({} if confinement is None else _at_home_in(confinement.writes[0])),
                 **(environment or {})},
        )  # fmt: skip
        assert self._process.stdin is not None, "opened with a pipe"
        os.set_blocking(self._process.stdin.fileno(), False)  # a worker that does not read must not hold us
        self._buffer = b""
        self._closed = False
        self.processor_seconds = 0.0

    def ask(self, task: str, *, timeout: float, **request: Any) -> dict[str, Any]:
        """The worker's answer: {"ok": true, ...} or {"ok": false, "error": {...}}. Raises `WorkerDied` if there is none.

        The process is ended when `timeout` seconds have passed, or by `OutOfTime` with the deadline of the block.
        """
        block, limit = deadline.current(), Deadline(timeout)
        if block is not None and block.left < timeout:
            limit = block
        try:
            line = self._read_line(limit) if self._write(json.dumps({"do": task, **request}).encode(), limit) else None
        except BrokenPipeError:
            raise self._died() from None
        if line is None:
            self.close()
            if limit is block:
                raise OutOfTime(f"no answer to {task} in time")
            raise WorkerDied(f"no answer within {timeout:g} s", self.last_words())
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        self.processor_seconds = answer["processor"]
        return answer

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def last_words(self, size: int = 4096) -> str:
        """The end of what the worker printed."""
        if self._log.closed:
            return ""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - size))
        return self._log.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the process and everything it started."""
        if self._closed:
            return
        self._closed = True
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._log.close()

    def _write(self, line: bytes, limit: Deadline) -> bool:
        """Whether the worker took the line before the limit. A pipe holds a few pages; the rest waits until it reads."""
        assert self._process.stdin is not None, "opened with a pipe"
        descriptor, left = self._process.stdin.fileno(), line + b"\n"
        while left:
            _, ready, _ = select.select([], [descriptor], [], limit.left)
            if not ready:
                return False
            left = left[os.write(descriptor, left[: select.PIPE_BUF]) :]
        return True

    def _read_line(self, limit: Deadline) -> bytes | None:
        """One line; empty at the end of the pipe; None when the limit passed."""
        assert self._process.stdout is not None, "opened with a pipe"
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], limit.left)
            if not ready:
                return None
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return b""
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _died(self) -> WorkerDied:
        try:
            code = self._process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            self.close()
            return WorkerDied("the worker closed its pipe and went on without an answer", self.last_words())
        reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return WorkerDied(f"the worker {reason}", self.last_words())


def _at_home_in(scratch: str) -> dict[str, str]:
    """Variables by which libraries write their caches and notes where they may. The user's own packages stay where they are."""
    return {"TMPDIR": scratch, "XDG_CACHE_HOME": scratch, "HOME": scratch, "PYTHONUSERBASE": site.getuserbase()}


def source_failed(what: str, error: dict[str, Any]) -> SourceFailed:
    """The error for a worker's `error` answer: the framework's own words and the user's line."""
    where = f" at {error['where']}" if error.get("where") else ""
    kind = "" if error["type"] == "Refused" else f"{error['type']}: "  # the worker's own words need no name of a class
    return SourceFailed(
        f"{what}{where}: {kind}{error['message']}",
        hint=error.get("hint") or "run it in Python to see the whole traceback",
    )
