"""Writing that cannot be half done: a temporary name beside the target, then a rename."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sardonyx.errors import OutputError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path; it becomes `path` only if the block ends well. A crash leaves the old file or none."""
    path = _target(path)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    except OSError as error:
        raise _failed(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, *, known_by: str = "") -> Iterator[Path]:
    """Yields a temporary folder that takes the place of `path` only if the block ends well.

    A folder that is there already must be empty or hold a file named `known_by`: anything else is somebody's work.
    """
    path = _target_folder(path, known_by)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent) as outer:
            temporary = Path(outer) / "new"
            temporary.mkdir()
            yield temporary
            if path.exists():
                path.rename(Path(outer) / "old")
            temporary.rename(path)
    except OSError as error:
        raise _failed(path, error) from error


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
