"""Work done in a child process, so that a native crash, a hang or a memory bomb is an answer and not our end."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sardonyx import deadline

# Runs a module of ours without the current folder on the path.
ISOLATED = Path(__file__).parent / "_isolated.py"

End = Literal["answered", "crashed", "timeout", "memory"]


@dataclass(frozen=True)
class Outcome:
    """How the child ended, what it answered (one JSON object), and the last words of its stderr.

    A child that was ended for its time may have answered in part, if it writes its answer anew with each part.
    """

    end: End
    answer: dict[str, Any]
    stderr: str
    reason: str = ""


def module(name: str, *, ends_with_thread: bool = True) -> list[str]:
    """The command that runs one of our own modules with this interpreter.

    Isolated: neither the current folder nor a variable PYTHON* puts a file before those that are installed. The process ends
    with the thread that starts it, unless that is not wanted.
    """
    ends = "ends" if ends_with_thread else "stays"
    cached = ["-B"] if sys.dont_write_bytecode else []  # `-I` does not see the variable that says so
    return [sys.executable, "-I", "-u", *cached, "-W", "ignore", str(ISOLATED), ends, name]


def call(
    command: Sequence[str],
    request: dict[str, Any],
    *,
    timeout: float,
    memory: int | None = None,
    cpu: float | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Runs `command`, gives it `request` as JSON on stdin and takes the JSON object it writes to the file named in `answer`.

    The child and everything it starts are killed after `timeout` seconds, or with the deadline of the block. `memory`
    bounds its address space in bytes, `cpu` the seconds it may compute, which do not grow when the machine is busy. Whatever
    it prints is kept apart from its answer.
    """
    with started(command, request, timeout=timeout, memory=memory, cpu=cpu, folder=folder) as outcome:
        return outcome()


@contextmanager
def started(
    command: Sequence[str],
    request: dict[str, Any],
    *,
    timeout: float,
    memory: int | None = None,
    cpu: float | None = None,
    folder: Path | None = None,
) -> Iterator[Callable[[], Outcome]]:
    """A child at work beside the block, as `call` runs it. What is yielded waits for its outcome; leaving the block kills it."""
    block = deadline.current()
    timeout = timeout if block is None else min(timeout, block.left)
    end = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        answer, asked = Path(scratch) / "answer.json", Path(scratch) / "request.json"
        asked.write_text(json.dumps({**request, "answer": str(answer)}))
        with asked.open("rb") as stdin, (Path(scratch) / "stderr").open("w+b") as stderr:
            process = subprocess.Popen(
                list(command),
                stdin=stdin,
                stdout=stderr,
                stderr=stderr,
                cwd=folder,
                start_new_session=True,
            )

            def outcome() -> Outcome:
                try:
                    process.wait(max(0.0, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    _kill(process)
                    so_far = _parsed(answer) if answer.exists() else None
                    return Outcome("timeout", so_far or {}, _last_words(stderr), f"no answer within {timeout:.3g} s")
                return _outcome(process.returncode, answer, _last_words(stderr))

            try:
                _limit(process.pid, memory, cpu)
                yield outcome
            finally:
                _kill(process)


def _outcome(code: int, answer: Path, words: str) -> Outcome:
    if answer.exists() and (said := _parsed(answer)) is not None:
        return Outcome("answered", said, words)
    if "MemoryError" in words or "bad_alloc" in words or "Failed to allocate" in words or code == -signal.SIGKILL:
        return Outcome("memory", {}, words, "ran out of the memory it was given")
    if code == -signal.SIGXCPU:
        return Outcome("timeout", {}, words, "used up the computing time it was given")
    reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return Outcome("crashed", {}, words, reason)


def _parsed(answer: Path) -> dict[str, Any] | None:
    """What the child wrote, or None where it died in the middle of writing."""
    try:
        said = json.loads(answer.read_bytes())
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _limit(process: int, memory: int | None, cpu: float | None) -> None:
    """Bounds a running process. Set from outside: code between fork and exec is not safe in a process with threads."""
    import resource

    if not hasattr(resource, "prlimit"):  # not Linux: the time limit alone has to do
        return
    with suppress(ProcessLookupError):
        resource.prlimit(process, resource.RLIMIT_CORE, (0, 0))
        if memory is not None:
            _lower(process, resource.RLIMIT_AS, memory, memory)
        if cpu is not None:
            _lower(process, resource.RLIMIT_CPU, math.ceil(cpu), math.ceil(cpu) + 1)


def _lower(process: int, which: int, soft: int, hard: int) -> None:
    """Sets a limit, or leaves it as it is where it is lower already: `ulimit` of the user's shell comes first."""
    import resource

    now_soft, now_hard = resource.prlimit(process, which)
    hard = hard if now_hard == resource.RLIM_INFINITY else min(hard, now_hard)
    soft = min(soft, hard) if now_soft == resource.RLIM_INFINITY else min(soft, now_soft, hard)
    resource.prlimit(process, which, (soft, hard))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # the whole group may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(file: Any, size: int = 8192) -> str:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - size))
    text: str = file.read().decode(errors="replace")
    return text.strip()
