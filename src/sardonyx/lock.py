"""One writer at a time: a lock file that the system lets go of when its process ends, however that ends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sardonyx.errors import OutputError

try:
    import fcntl
except ModuleNotFoundError:  # not a POSIX system: nothing is locked there
    fcntl = None  # type: ignore[assignment]

# What a lock file holds: the number of the process, for people.
_LONGEST = 20


def beside(folder: Path) -> Path:
    """The lock file of a folder that is replaced as a whole."""
    return folder.with_name(f".{folder.name}.lock")


def inside(folder: Path) -> Path:
    """The lock file of a folder that is written in place."""
    return folder / ".lock"


@contextmanager
def held(path: Path, what: Path) -> Iterator[None]:
    """Nobody else is in a block with this lock file, in any process; `OutputError` says who is writing `what`.

    The file goes when the block ends. One that a dead process left is taken over.
    """
    if fcntl is None:
        yield
        return
    handle = _taken(path, what)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Whether this open file or folder is ours alone from now on, until it is closed. False where the system cannot say."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _taken(path: Path, what: Path) -> int:
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise OutputError(
                f"cannot lock {what}: {path}: {error.strerror}", hint="choose another place, or remove that file"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _must_be_ours(handle, path, what)
        except BlockingIOError as error:
            who = _pid(handle)
            os.close(handle)
            raise OutputError(
                f"another process{who} is writing {what}", hint="wait until it has ended, or choose another place"
            ) from error
        except BaseException:
            os.close(handle)
            raise
        if _is_still(handle, path):
            return handle
        os.close(handle)  # its last holder removed it between our two calls


def _must_be_ours(handle: int, path: Path, what: Path) -> None:
    """A file that holds anything else is somebody's, and would be cut to nothing."""
    status = os.fstat(handle)
    plain = stat.S_ISREG(status.st_mode) and status.st_nlink <= 1 and status.st_size <= _LONGEST
    if not plain or os.pread(handle, _LONGEST, 0).strip(b"0123456789"):
        raise OutputError(f"cannot lock {what}: {path} is not a lock file", hint="move that file away")


def _is_still(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _pid(handle: int) -> str:
    try:
        said = os.pread(handle, _LONGEST, 0)
    except OSError:
        return ""
    return f" ({said.decode()})" if said.isdigit() else ""
