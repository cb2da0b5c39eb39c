"""Files below one folder, whoever filled it: nothing outside of the folder is read, written or removed.

A name is relative, without `..`, and one that every operating system takes for a name below its folder. No part of it may be a
link: each part is opened from the one before, so that a part which is swapped for a link in between leads nowhere. Only plain
files are opened, and opening never waits, as it would for a FIFO.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO

from sardonyx import machine
from sardonyx.errors import NotFound, OutputError, UnsafePath

# Bytes that are read at a time, and the longest name of a file that common file systems take.
PIECE, NAME_AT_MOST = 1 << 20, 255
# Absent on Windows, where names are looked at part by part instead.
_BY_HANDLE = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_STAY: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_WAIT_NOT: int = getattr(os, "O_NONBLOCK", 0)
# A handle to walk from, which needs no right to list the folder.
_FOLDER: int = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", 0) | _STAY


class Folder:
    """`with Folder(path) as folder: folder.read("bundle.json", at_most=1 << 20)`.

    The path itself is the user's word and may lead over links. Every error is an `UnsafePath`, or `NotFound`, or says that
    something cannot be written.
    """

    def __init__(self, path: str | Path, *, _handle: int | None = None) -> None:
        self.path = Path(path)
        self._handle = -1 if _handle is None else _handle
        if _handle is not None:
            return
        try:
            if not self.path.is_dir():
                raise NotFound(f"{self.path} is no folder", hint="check the spelling of the path")
            if _BY_HANDLE:
                self._handle = os.open(self.path, _FOLDER)
        except (OSError, ValueError) as error:
            raise NotFound(f"{self.path} cannot be opened: {_why(error)}", hint="check the path") from error

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def names(self) -> list[str]:
        """Everything that lies directly in the folder, in order."""
        if not _BY_HANDLE:
            return sorted(each.name for each in self.path.iterdir())
        handle = os.open(".", os.O_RDONLY | _STAY, dir_fd=self._handle)
        try:
            return sorted(os.listdir(handle))  # noqa: PTH208  a handle, not a path
        finally:
            os.close(handle)

    def open(self, name: str, *, alone: bool = True, at_most: int | None = None) -> BinaryIO:
        """The plain file, to read. `alone` refuses one that has other names too, which may be anybody's."""
        with self._reach(name) as (parent, last):
            problem = _kind_problem(self._status(parent, last), alone)
            if problem:
                raise self._unsafe(name, problem)
            handle = self._opened(parent, last, name, os.O_RDONLY | _WAIT_NOT | getattr(os, "O_BINARY", 0))
        file = os.fdopen(handle, "rb")
        status = os.fstat(handle)
        problem = _kind_problem(status, alone)
        if not problem and at_most is not None and status.st_size > at_most:
            problem = f"it has {status.st_size:,} bytes, and at most {at_most:,} are read"
        if problem:
            file.close()
            raise self._unsafe(name, problem)
        return file

    def read(self, name: str, *, at_most: int) -> bytes:
        """The bytes of the file."""
        with self.open(name, at_most=at_most) as file:
            data = file.read(at_most + 1)
        if len(data) > at_most:  # it grew while it was read
            raise self._unsafe(name, f"it has more than {at_most:,} bytes")
        return data

    def size(self, name: str, *, alone: bool = True) -> int:
        with self.open(name, alone=alone) as file:
            return os.fstat(file.fileno()).st_size

    def sha256(self, name: str, *, size: int | None = None, advance: Callable[[int], Any] | None = None) -> str:
        """The file's hash, read in pieces. A file that has not `size` bytes is refused before it is read.

        Without a size it may be as large as the memory: a sparse file says any size and takes no room.
        """
        with self.open(name) as file:
            return _drain(file, self._size(file, name, size), advance=advance)

    def copy(self, name: str, target: Folder, to: str, *, expected: str | None = None, size: int | None = None) -> None:
        """Copies the file to a new file of another folder. Bytes with another hash than `expected` are not kept."""
        with self.open(name, alone=expected is not None) as file:
            found = self._size(file, name, size)
            with target.write(to) as copied:
                digest = _drain(file, found, copied)
                if expected is not None and digest != expected:
                    raise self._unsafe(name, "its bytes are not those that were written", reason="hash")

    def _size(self, file: BinaryIO, name: str, size: int | None) -> int:
        found, most = os.fstat(file.fileno()).st_size, machine.memory_bytes()
        if size is not None and found != size:
            raise self._unsafe(name, f"it has {found} bytes instead of {size}", reason="size")
        if size is None and found > most:
            raise self._unsafe(name, f"it has {found:,} bytes, more than this machine's memory", reason="size")
        return found

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes the place of `name` if the block ends well, be that a file or a link, and else leaves it."""
        with self._reach(name, create=True) as (parent, last):
            temporary = f".{os.urandom(4).hex()}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            try:
                with os.fdopen(self._opened(parent, temporary, name, flags), "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                if _BY_HANDLE:
                    os.rename(temporary, last, src_dir_fd=parent, dst_dir_fd=parent)
                else:
                    self._at(parent, temporary).replace(self._at(parent, last))
            except OSError as error:
                raise OutputError(
                    f"cannot write {self.path / name}: {_why(error)}", hint="free some space or choose another place"
                ) from error
            finally:
                self._unlink(parent, temporary)

    def folder(self, name: str, *, create: bool = False) -> Folder:
        """A folder inside this one, made where `create` says so."""
        with self._reach(name, create=create, whole=True) as (parent, _):
            return Folder(self.path / name, _handle=os.dup(parent) if _BY_HANDLE else None)

    def remove(self, name: str) -> None:
        """Removes a file, a link (not what it leads to) or a folder with all that is in it. What is not there is no error."""
        with self._reach(name) as (parent, last):
            status = self._status(parent, last, missing=True)
            if status is None:
                return
            if not stat.S_ISDIR(status.st_mode):
                self._unlink(parent, last)
            elif _BY_HANDLE:
                shutil.rmtree(last, dir_fd=parent)
            else:
                shutil.rmtree(self._at(parent, last))

    def is_plain(self, name: str) -> bool:
        """Whether a plain file of this one name lies there."""
        try:
            self.open(name).close()
        except (UnsafePath, NotFound):
            return False
        return True

    def _unsafe(self, name: str, problem: str, *, reason: str = "link") -> UnsafePath:
        return UnsafePath(f"{self.path / name}: {problem}", problem=problem, reason=reason)

    @contextmanager
    def _reach(self, name: str, *, create: bool = False, whole: bool = False) -> Iterator[tuple[Any, str]]:
        """The folder of the last part of the name, reached part by part, and that part; with `whole` the last part itself."""
        problem, reason = name_problem(name)
        if problem:
            raise UnsafePath(f"{self.path}: '{name[:100]}': {problem}", problem=problem, reason=reason)
        *parts, last = PurePosixPath(name).parts or (".",)
        if whole:
            parts, last = [*parts, last], "."
        at: Any = os.dup(self._handle) if _BY_HANDLE else self.path
        try:
            for part in parts:
                at = self._into(at, part, name, create)
            yield at, last
        finally:
            if _BY_HANDLE:
                os.close(at)

    def _into(self, at: Any, part: str, name: str, create: bool) -> Any:
        if create:
            try:
                os.mkdir(part, dir_fd=at) if _BY_HANDLE else self._at(at, part).mkdir()
            except FileExistsError:
                pass
            except OSError as error:
                raise OutputError(f"cannot write {self.path / name}: {_why(error)}", hint="choose another") from error
        status = self._status(at, part, name=name)
        if not stat.S_ISDIR(status.st_mode):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "no folder"
            raise self._unsafe(name, f"'{part}' is {kind}")
        if not _BY_HANDLE:
            return self._at(at, part)
        inner = self._opened(at, part, name, os.O_RDONLY | _FOLDER)
        os.close(at)
        return inner

    def _opened(self, parent: Any, last: str, name: str, flags: int) -> int:
        try:
            if _BY_HANDLE:
                return os.open(last, flags | _NO_LINK | _STAY, 0o666, dir_fd=parent)
            return os.open(self._at(parent, last), flags | _NO_LINK | _STAY, 0o666)
        except FileNotFoundError as error:
            raise NotFound(f"{self.path / name} is not there", hint="check the folder") from error
        except OSError as error:  # ELOOP and ENOTDIR, where a link has taken the place since we looked
            if flags & os.O_CREAT:
                raise
            raise self._unsafe(name, f"it cannot be opened: {_why(error)}") from error

    def _status(self, parent: Any, last: str, *, name: str = "", missing: bool = False) -> Any:
        try:
            if _BY_HANDLE:
                return os.stat(last, dir_fd=parent, follow_symlinks=False)
            return os.lstat(self._at(parent, last))
        except FileNotFoundError as error:
            if missing:
                return None
            raise NotFound(f"{self.path / (name or last)} is not there", hint="check the folder") from error
        except (OSError, ValueError) as error:
            problem = f"it cannot be read: {_why(error)}"
            raise self._unsafe(name or last, problem, reason="name") from error

    def _unlink(self, parent: Any, last: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(last, dir_fd=parent) if _BY_HANDLE else self._at(parent, last).unlink()

    @staticmethod
    def _at(parent: Path, part: str) -> Path:
        return parent / part


def name_problem(name: object) -> tuple[str, str]:
    """What is wrong with a name below a folder, and 'outside' where it leads out of it or 'name'; both empty if nothing is."""
    if not isinstance(name, str) or not name:
        return "it has no name", "name"
    windows = PureWindowsPath(name)
    if "\0" in name or name.startswith("/") or windows.drive or windows.root or ".." in windows.parts:
        return "its name leads out of the folder", "outside"
    if "\\" in name or any(ord(letter) < 32 or 127 <= ord(letter) < 160 or _lone(letter) for letter in name):
        return "its name holds characters that no name should have", "name"
    if any(len(os.fsencode(part)) > NAME_AT_MOST for part in name.split("/")) or len(name) > 16 * NAME_AT_MOST:
        return "its name is too long", "name"
    return "", ""


def is_plain_name(name: object) -> bool:
    """Whether the name is that of a file in the folder itself, on any system."""
    if not isinstance(name, str) or name_problem(name)[0] or set(name) & set("/:") or name == ".":
        return False
    return not PureWindowsPath(name).is_reserved() and name[-1] not in ". "


def must_be_plain_names(names: Any, where: str | Path) -> None:
    """Raises `UnsafePath` for the first name that is not that of a file in the folder itself."""
    for name in names:
        if not is_plain_name(name):
            problem = name_problem(name)[0] or "it is not the name of a file in the folder itself"
            raise UnsafePath(f"{where}: '{str(name)[:100]}': {problem}", problem=problem, reason="outside")


def _lone(letter: str) -> bool:
    return "\ud800" <= letter <= "\udfff"


def _kind_problem(status: Any, alone: bool) -> str:
    """Why a file may show other bytes than its own, or block its reader; empty for a plain one."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a plain file"
    return "it is a link to a file that has other names too" if alone and status.st_nlink > 1 else ""


def _drain(
    file: BinaryIO, size: int, to: BinaryIO | None = None, *, advance: Callable[[int], Any] | None = None
) -> str:
    """The hash of the file, which is copied on the way. No more than `size` bytes are read, even if it grows."""
    digest, left = hashlib.sha256(), size
    while left and (piece := file.read(min(PIECE, left))):
        digest.update(piece)
        left -= len(piece)
        if to is not None:
            to.write(piece)
        if advance is not None:
            advance(len(piece))
    return digest.hexdigest()


def _why(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
