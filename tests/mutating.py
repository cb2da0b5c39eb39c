"""Inputs of a stranger, by seed: damaged bytes, JSON of another form, folders with links, pipes and sparse files in them.

What a door makes of them is watched: an answer or an error with a name, no file touched outside, bounded time and memory.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sardonyx.errors import SardonyxError

SECONDS, MEMORY = 10.0, 1 << 30
LETTERS = b"0123456789(){}[],'\"<>|fiuOVSU\n;\\x00"
STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 1 << 31, 1 << 62, 1 << 64, -(1 << 63), 0.5, 1e308, "", "x", "NaN", "Infinity", "../x",
    "/etc/passwd", "a/b", "..", ".", "C:\\x", "a\\b", "x\0y", "\x1b[31mred", "line\nline", "<script>alert(1)</script>",
    "\u202e", "n" * 300, "n" * 5000, [], {}, [[]], [None], {"": None}, {"a": {"b": {}}}, [1, "a", None, {}],
]  # fmt: skip
NAMES = [
    "../x",
    "/tmp/x",
    "..",
    ".",
    "",
    "a/b",
    "a\\b",
    "C:x",
    "x\0",
    "x\n",
    "con",
    "n" * 300,
    "bundle.json",
    "model.onnx",
]


class Watch:
    """Counts how inputs ended, and fails for one that ended otherwise than it may."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()

    def meet(self, about: object, call: Callable[[], Any]) -> None:
        started = time.process_time()
        try:
            call()
            self.ends["ok"] += 1
        except SardonyxError as error:
            self.ends[error.code] += 1
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__} on {about}: {error}") from error
        assert "internal" not in self.ends, about
        assert time.process_time() - started < SECONDS, f"took too long: {about}"


@contextmanager
def watched(outside: Path) -> Iterator[Watch]:
    """Everything in the folder `outside` is as before when the block ends, and the process has not grown by more than MEMORY."""
    outside.mkdir(exist_ok=True)
    (outside / "secret.txt").write_text("nobody may read or write this")
    (outside / "inner").mkdir(exist_ok=True)
    (outside / "inner" / "model.onnx").write_bytes(b"a model of somebody else")
    before, grown = snapshot(outside), _peak_from_here()
    watch = Watch()
    yield watch
    assert snapshot(outside) == before, "a file outside was touched"
    assert grown() < MEMORY


def snapshot(folder: Path) -> dict[str, tuple[int, ...] | str]:
    """Every file below the folder: its hash, mode, links and time of change."""
    found: dict[str, tuple[int, ...] | str] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_nlink, status.st_mtime_ns, status.st_size)
        if path.is_file() and not path.is_symlink():
            found[f"{path}:hash"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _peak_from_here() -> Callable[[], int]:
    """The bytes by which the peak of this process grows from now on; 0 where the system does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        start = _peak()
    except (OSError, StopIteration):
        return lambda: 0
    return lambda: _peak() - start


def _peak() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def damaged(chance: random.Random, data: bytes, *, head: int | None = None) -> bytes:
    """The bytes with some changed, inserted, repeated or cut off; mostly among the first `head`."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        end = min(len(found), head) if head and chance.random() < 0.8 else len(found)
        place, kind = chance.randrange(max(1, end)), chance.randrange(6)
        if not found:
            break
        if kind < 2:
            found[place] = chance.randrange(256)
        elif kind == 2:
            found[place] = chance.choice(LETTERS)
        elif kind == 3:
            found[place : place + 4] = chance.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80")
            )
        elif kind == 4:
            found[place:place] = found[place : place + chance.randrange(1, 40)]
        else:
            del found[place : place + chance.choice((1, 2, 10, len(found)))]
    return bytes(found)


def changed(chance: random.Random, value: Any) -> Any:
    """The JSON value with one part somewhere in it replaced, left out, doubled or renamed."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value, key=str))
        rest = {name: item for name, item in value.items() if name != key}
        kind = chance.randrange(8)
        if kind == 0:
            return rest
        if kind == 1:
            return {**rest, chance.choice(NAMES): value[key]}
        return {**value, key: changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.85:
        index, kind = chance.randrange(len(value)), chance.randrange(8)
        if kind == 0:
            return value[:index] + value[index + 1 :]
        if kind == 1:
            return [*value[:index], value[index], *value[index:]]
        return [*value[:index], changed(chance, value[index]), *value[index + 1 :]]
    if isinstance(value, int) and chance.random() < 0.3:
        return value + chance.choice((-1, 1, 1 << 20, -(1 << 20)))
    return chance.choice(STRANGE)


def disturb(chance: random.Random, folder: Path, outside: Path) -> str:
    """Puts a link, a pipe, a sparse file, a folder or something else in the place of a file, and says what."""
    path = chance.choice(sorted(folder.iterdir()))
    kind = chance.choice(
        ("link", "dangling", "link to a folder", "hard link", "pipe", "sparse", "folder", "gone", "empty")
    )
    if path.is_dir() and not path.is_symlink():
        return "nothing"
    path.unlink()
    if kind == "link":
        path.symlink_to(outside / "secret.txt")
    elif kind == "dangling":
        path.symlink_to(outside / "nowhere")
    elif kind == "link to a folder":
        path.symlink_to(outside / "inner")
    elif kind == "hard link":
        (folder.parent / "twin").unlink(missing_ok=True)
        (folder.parent / "twin").write_bytes(b"somebody else's")
        os.link(folder.parent / "twin", path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(300 << 30)
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    return f"{path.name}: {kind}"
