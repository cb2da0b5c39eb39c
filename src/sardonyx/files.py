"""Writing that cannot be half done: a scratch folder beside the target, then a rename.

A scratch folder is locked by the process that fills it. What a process that was killed has left is removed by the next that
writes to the same place.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sardonyx import lock
from sardonyx.below import Folder
from sardonyx.errors import NotFound, OutputError

_looked: set[Path] = set()


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path; it becomes `path` only if the block ends well. A crash leaves the old file or none."""
    path = _target(path)
    try:
        with scratch(path) as folder:
            temporary = folder / path.name
            yield temporary
            sync(temporary)
            temporary.replace(path)
    except OSError as error:
        raise _failed(path, error) from error


@contextmanager
def replacing_folder(path: str | Path, *, known_by: str = "") -> Iterator[Path]:
    """Yields a temporary folder that takes the place of `path` only if the block ends well. Nobody else writes it meanwhile.

    A folder that is there already must be empty or hold a file named `known_by`: anything else is somebody's work.
    """
    path = _target_folder(path, known_by)
    try:
        with lock.held(lock.beside(path), path), scratch(path) as outer:
            _target_folder(path, known_by)  # once more, now that nobody else writes it
            temporary = outer / "new"
            temporary.mkdir()
            yield temporary
            if os.path.lexists(path):
                path.rename(outer / "old")
            temporary.rename(path)
    except OSError as error:
        raise _failed(path, error) from error


@contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """A folder beside `path`, ours until the block ends, for what will become `path`. Removes those of dead processes first."""
    _remove_leftovers(path)
    folder, handle = _new_scratch(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder among the system's temporary files, ours until the block ends. Removes those of dead processes first."""
    with scratch(Path(tempfile.gettempdir()) / "sardonyx") as folder:
        yield folder


def _new_scratch(path: Path) -> tuple[Path, int]:
    while True:
        folder = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
        folder.mkdir(mode=0o700)
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        lock.try_lock(handle)
        # Another process may have taken it for a leftover before it was locked.
        if folder.exists() and os.path.samestat(os.fstat(handle), folder.stat()):
            return folder, handle
        os.close(handle)


def _remove_leftovers(path: Path) -> None:
    """Looks once in a process for each place."""
    place = path.absolute()
    if place not in _looked:
        _looked.add(place)
        remove_leftovers(path)


def remove_leftovers(path: Path) -> None:
    """Removes what a process that has died left beside `path`: the scratch folders that no process holds the lock of."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.part")
    with suppress(
        PermissionError, FileNotFoundError, NotADirectoryError
    ):  # it may be written and not listed, or be gone
        for name in [each.name for each in path.parent.iterdir() if pattern.fullmatch(each.name)]:
            _remove_leftover(path, name)


def _remove_leftover(path: Path, name: str) -> None:
    try:
        handle = os.open(path.with_name(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # a file or a link of that name is not ours
        return
    try:
        status = os.fstat(handle)
        ours = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700
        if not (ours and lock.try_lock(handle)):
            return
        old = path.with_name(name) / "old"
        if old.is_dir() and not old.is_symlink() and not os.path.lexists(path):  # killed between two renames
            old.rename(path)
        with Folder(path.parent) as parent:
            parent.remove(name)
    except (OSError, NotFound):  # it went while we looked
        return
    finally:
        os.close(handle)


def must_be_writable(path: str | Path) -> None:
    """Raises `OutputError` where the file could not be written, before the work that would be lost."""
    path = _target(path)
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: permission denied", hint="choose another place with -o")


def write_text(path: str | Path, text: str) -> None:
    """Replaces the file with `text`."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def copy(source: Path, target: Path) -> None:
    """Replaces `target` with the bytes of `source`."""
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def sha256(path: Path) -> str:
    """The file's hash, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_target(path: str | Path) -> None:
    """Raises now what writing to `path` would raise after the work is done."""
    _target(path)


def check_folder(path: str | Path, *, known_by: str = "") -> Path:
    """The folder's path, or now what `replacing_folder` would raise after the work is done."""
    path = _target_folder(path, known_by)
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: permission denied", hint="choose another place with -o")
    return path


def sync(path: Path) -> None:
    """The file's bytes are on the disk when this returns, so that a rename cannot overtake them."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _target(path: str | Path) -> Path:
    path = _in_a_folder(path)
    # A rename would put a plain file in the place of a device: as root, `-o /dev/null` would take the machine's away.
    if _exists(path) and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a plain file"
        raise OutputError(f"cannot write {path}: it is {kind}", hint="name a file")
    return path


def _target_folder(path: str | Path, known_by: str) -> Path:
    path = _in_a_folder(path)
    if not path.name or path.name == "..":
        raise OutputError(f"cannot write {path}: it would replace the folder you are in", hint="name a new folder")
    if _exists(path) and not path.is_dir():
        raise OutputError(f"cannot write {path}: it is a file", hint="name a folder")
    if path.is_dir() and any(path.iterdir()) and not (known_by and (path / known_by).is_file()):
        raise OutputError(
            f"cannot write {path}: the folder is there and holds other files",
            hint="name a new folder or empty this one",
        )
    return path


def _in_a_folder(path: str | Path) -> Path:
    path = Path(path)
    if not path.parent.is_dir():
        raise OutputError(
            f"cannot write {path}: the folder {path.parent} does not exist", hint=f"mkdir -p {path.parent}"
        )
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a name that is too long, say
        raise _failed(path, error) from error


def _failed(path: Path, error: OSError) -> OutputError:
    # numpy says only how much it wrote when a disk is full.
    reason = error.strerror or f"the disk may be full ({error})"
    return OutputError(f"cannot write {path}: {reason}", hint="free some space or choose another place with -o")
