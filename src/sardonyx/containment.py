"""A verb's work in a process of its own, which may crash, hang or eat memory: the caller gets a report or a named error.

A command forks once it knows what to do, while it is small and has one thread. The child confines itself (`sandbox`), does the
work and sends its report back as plain data; the parent waits, and ends it when its time is up or the user says so.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sardonyx import errors, files, machine, sandbox
from sardonyx.errors import Contained, Internal, SardonyxError
from sardonyx.report import Finding, Report, Table
from sardonyx.sandbox import Confinement

# Seconds in which a child that is told to stop may put away what is half done.
GRACE = 1.5
# The most that a report may weigh, in bytes: what a child says is not trusted either.
LONGEST = 1 << 28
# What Python, numpy, onnx and onnxruntime take of the address space by themselves, and what each thread adds.
OVERHEAD, OF_A_THREAD = 4 << 30, 256 << 20
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS)

_inside = False


@dataclass(frozen=True)
class Work:
    """What a process of its own does: for whom it is told, what it may touch, and for how long."""

    verb: str
    about: str
    confinement: Confinement
    seconds: float | None = None
    more_time: str = ""
    outputs: tuple[Path, ...] = ()


def inside() -> bool:
    """Whether this process was made to meet a stranger's file, so that no other is needed."""
    return _inside


def possible() -> bool:
    """Whether this process can be forked: the system can, and no thread would be lost in the copy."""
    return hasattr(os, "fork") and threading.active_count() == 1 and not _inside


def free_memory() -> int | None:
    """Bytes that are free on this machine or in this container, or None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
        return min(available, machine.cgroup_memory() or available)
    return None


def address_space(*files: str | Path) -> int | None:
    """The address space for work on these files: the machine's free memory, the files, and what the libraries take."""
    free = free_memory()
    if free is None:
        return None
    sizes = sum(Path(file).stat().st_size for file in files if Path(file).is_file())
    return free + 2 * sizes + OVERHEAD + OF_A_THREAD * machine.threads()


def forked(work: Work, do: Callable[[], Report]) -> Report:
    """The report of `do`, which runs in a copy of this process that has confined itself."""
    with _scratch() as scratch:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _be_the_child(work, do, scratch, writer)
        os.close(writer)
        try:
            said, code, late = _supervise(pid, reader, work.seconds)
        finally:
            os.close(reader)
        if code != 0:  # it may have died in the middle of an output
            for output in work.outputs:
                files.remove_leftovers(output)
        return _outcome(work, said, code, late)


def _be_the_child(work: Work, do: Callable[[], Report], scratch: str, writer: int) -> None:
    """Never returns: says its report, or its error, and ends without the interpreter's long goodbye."""
    global _inside
    code = 1
    try:
        _inside = True
        os.setsid()  # a group of its own, and no terminal to push letters into
        sandbox.end_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        tempfile.tempdir = os.environ["TMPDIR"] = scratch
        os.environ.setdefault("MPLCONFIGDIR", scratch)
        wanted = work.confinement
        sandbox.confine(replace(wanted, writes=(*wanted.writes, scratch)))
        _send(writer, answer(do))
        code = 0
    except KeyboardInterrupt:
        code = errors.Interrupted.exit_code
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def answer(do: Callable[[], Report]) -> dict[str, Any]:
    """What `do` gives, as plain data: {"report": ...} or {"error": ...}."""
    try:
        return {"report": report_as_data(do())}
    except SardonyxError as error:
        return {"error": error.to_dict()}


def _send(writer: int, told: dict[str, Any]) -> None:
    data = json.dumps(told).encode()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(data)


def _supervise(pid: int, reader: int, seconds: float | None) -> tuple[bytes, int, bool]:
    """(what the child said, how it ended, whether its time was up). However this is left, the child is gone."""
    end = None if seconds is None else time.monotonic() + seconds
    said, ended = bytearray(), False
    try:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _, _ = select.select([reader], [], [], left)
            if not ready:
                status = _kill(pid)
                ended = True
                return bytes(said), status, True
            piece = os.read(reader, 1 << 20)
            if not piece:
                break
            said += piece
            if len(said) > LONGEST:
                break
        if len(said) > LONGEST:
            said.clear()
            status = _kill(pid)
        else:
            status = _wait(pid)
        ended = True
        return bytes(said), status, False
    finally:
        if not ended:
            _stop(pid)


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _kill(pid: int) -> int:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return _wait(pid)


def _stop(pid: int) -> None:
    """Tells the child to end, as the user told us; kills it and its group where it does not at once."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C does not leave a process behind
        signal.signal(number, signal.SIG_IGN)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)
    end = time.monotonic() + GRACE
    while time.monotonic() < end:
        done, _ = os.waitpid(pid, os.WNOHANG)
        if done:
            return
        time.sleep(0.01)
    _kill(pid)


def _outcome(work: Work, said: bytes, code: int, late: bool) -> Report:
    told = None if late else _parsed(said)
    if told is not None and "report" in told:
        return report_from_data(told["report"])
    if told is not None and "error" in told:
        raise error_from_data(told["error"])
    if code == errors.Interrupted.exit_code:
        raise KeyboardInterrupt
    raise _failure(work, code, late)


def _failure(work: Work, code: int, late: bool) -> SardonyxError:
    """The error for a child that ended without an answer."""
    what = f"{work.verb} of {work.about}" if work.about else work.verb
    if late or code == -signal.SIGXCPU:
        allowed = work.seconds if late else work.confinement.cpu
        seconds = f"{allowed:.3g} s" + ("" if late else " of computing") if allowed else "its time"
        return Contained(
            f"{what} was ended: it did not end within {seconds}",
            hint=work.more_time or "the model may never end; sardonyx check says what is wrong with it",
        )
    if code == -signal.SIGKILL:
        return Contained(f"{what} was ended: the system has no memory left for it", hint="close other programs")
    if code < 0:
        name = signal.Signals(-code).name
        return Contained(
            f"{what} crashed a library ({name}) in the process that was made for it",
            hint="the model is damaged or made to do harm: sardonyx check says what is wrong with it",
        )
    return Internal(
        f"the process of {what} ended with exit code {code} and no answer", hint="run it again with --debug"
    )


def _parsed(said: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


@contextmanager
def _scratch() -> Iterator[str]:
    """A folder for all that the work writes by the way. It is gone afterwards, also where the child was killed."""
    folder = tempfile.mkdtemp(prefix="sardonyx-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Reports and errors as plain data


def report_as_data(report: Report) -> dict[str, Any]:
    """The report without its artifacts, as JSON has it."""
    return {
        "verb": report.verb,
        "verdict": report.verdict,
        "ok": bool(report.ok),
        "fields": portable(report.fields),
        "findings": [asdict(finding) for finding in report.findings],
        "tables": [
            {
                "title": table.title,
                "columns": list(table.columns),
                "rows": [list(map(_cell, row)) for row in table.rows],
            }
            for table in report.tables
        ],
        "summary": report.summary,
        "listing": report.listing,
    }


def report_from_data(data: Mapping[str, Any], artifacts: Mapping[str, Any] | None = None) -> Report:
    """The report that `report_as_data` described. What is of another form is the child's fault, and is an error."""
    try:
        return Report(
            str(data["verb"]),
            str(data["verdict"]),
            data["ok"] is True,
            dict(data["fields"]),
            tuple(Finding(**{name: str(value) for name, value in row.items()}) for row in data["findings"]),  # type: ignore[arg-type]
            tuple(_table(table) for table in data["tables"]),
            str(data["summary"]),
            dict(artifacts or {}),
            str(data["listing"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Contained("the process that met the file answered nonsense", hint="do not trust the file") from error


def error_from_data(data: Mapping[str, Any]) -> SardonyxError:
    """The error of the child, as an object of its class."""
    kind = _kinds().get(str(data.get("code")), Internal)
    error = kind.__new__(kind)
    SardonyxError.__init__(error, str(data.get("message", "")), hint=str(data.get("hint", "")))
    return error


def _kinds() -> dict[str, type[SardonyxError]]:
    def below(kind: type[SardonyxError]) -> Iterable[type[SardonyxError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    return {kind.code: kind for kind in below(SardonyxError) if kind.__module__ == errors.__name__}


def portable(value: Any) -> Any:
    """`value` in the types of JSON, but for numbers that are not finite, which stay."""
    if isinstance(value, Mapping):
        return {str(key): portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return portable(value.tolist())
    return str(value)


def _cell(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _table(data: Mapping[str, Any]) -> Table:
    return Table(
        str(data["title"]), tuple(map(str, data["columns"])), tuple(tuple(map(_cell, row)) for row in data["rows"])
    )
