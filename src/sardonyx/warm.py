"""Calls of a verb from Python, done in a process that is warm and forks for each: a hostile model ends its copy, not the program.

A program has threads, so that it must not fork itself. The warm process is started with the first call, has imported onnx and
onnxruntime, and ends with the program. It hands back what `containment.forked` gives: plain data, and arrays in a file.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sardonyx import child, containment, process
from sardonyx.errors import Contained
from sardonyx.report import Report
from sardonyx.sandbox import Confinement

_lock = threading.Lock()
_server: _Server | None = None


def wanted(model: object) -> bool:
    """Whether a call about this model is one for the warm process: a file, in a program's own process."""
    return isinstance(model, str | Path) and hasattr(os, "fork") and not process.command() and not containment.inside()


def call(
    verb: str,
    arguments: Mapping[str, Any],
    *,
    about: str | Path,
    writes: tuple[str | Path | None, ...] = (),
    seconds: float | None,
) -> Report:
    """The report of `sardonyx.<verb>(**arguments)`, with the arrays of its artifacts."""
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        folders = [str(Path(path).absolute().parent) for path in writes if path is not None]
        paths = [
            Path(value) for value in arguments.values() if isinstance(value, str | Path) and os.path.lexists(value)
        ]
        given = arguments.get("inputs") or {}
        paths += [Path(value) for value in given.values() if isinstance(value, str | Path) and os.path.lexists(value)]
        confinement = Confinement(
            reads=tuple(str(folder) for path in paths for folder in (path.resolve(), path.absolute().parent)),
            writes=(scratch, *folders),
            memory=containment.address_space(*paths),
        )
        request = {
            "verb": verb, "about": str(about), "seconds": seconds, "scratch": scratch, "folder": str(Path.cwd()),
            "confinement": confinement.to_dict(), "arguments": pack(dict(arguments), Path(scratch) / "given.npz"),
        }  # fmt: skip
        told = _asked(request)
        if "error" in told:
            raise containment.error_from_data(told["error"])
        artifacts = unpack(told["artifacts"], Path(scratch) / "artifacts.npz")
        return containment.report_from_data(told["report"], artifacts)


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    global _server
    with _lock:
        if _server is None or not _server.alive:
            _server = _Server()
        return _server.ask(request)


class _Server:
    """The warm process, which belongs to the process that started it and to no copy of that."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            child.module("sardonyx._warm", ends_with_thread=False), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            told: dict[str, Any] = json.loads(line)
        except (OSError, ValueError) as error:
            self.close()
            raise Contained(
                f"the process that meets files ended during {request['verb']}",
                hint="try again, and report it if it stays so",
            ) from error
        except BaseException:  # interrupted in the middle of an answer: the next call must not get it
            self.close()
            raise
        return told

    def close(self) -> None:
        if self._owner != os.getpid():
            return
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


# Values with arrays in them, without pickle: the arrays lie in an .npz file, the rest is JSON.


def pack(value: Any, path: Path) -> Any:
    """JSON for the value, its arrays in the file at `path`."""
    import numpy as np

    arrays: dict[str, Any] = {}
    packed = _packed(value, arrays)
    np.savez(path, **arrays)
    return packed


def _packed(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {"map": [[_packed(key, arrays), _packed(item, arrays)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {
            type(value).__name__ if type(value) in (list, tuple) else "list": [_packed(item, arrays) for item in value]
        }
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, Path):
        return {"path": str(value)}
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "tolist"):
        raise TypeError(f"{type(value).__name__} does not travel")
    name = str(len(arrays))
    if dtype.kind == "O":
        return {"strings": value.ravel().tolist(), "shape": list(value.shape)}
    if dtype.kind == "V":  # a type of ml_dtypes, which .npz keeps without its name
        arrays[name] = value.view(f"u{dtype.itemsize}")
        return {"array": name, "of": dtype.name}
    arrays[name] = value
    return {"array": name}


def packable(value: Any) -> bool:
    """Whether `pack` takes it."""
    if isinstance(value, Mapping):
        return all(packable(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(map(packable, value))
    kind = type(value).__module__.partition(".")[0]
    return (
        value is None
        or isinstance(value, bool | int | float | str | Path)
        or (kind == "numpy" and value.dtype.kind not in "OV")
    )


def unpack(packed: Any, path: Path) -> Any:
    """What `pack` was given."""
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return _unpacked(packed, arrays)


def _unpacked(packed: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    import numpy as np

    kind, value = next(iter(packed.items()))
    if kind == "map":
        return {_unpacked(key, arrays): _unpacked(item, arrays) for key, item in value}
    if kind in ("list", "tuple"):
        items = [_unpacked(item, arrays) for item in value]
        return items if kind == "list" else tuple(items)
    if kind == "strings":
        return np.array(value, dtype=object).reshape(packed["shape"])
    if kind == "array":
        return arrays[value].view(_named_type(packed["of"])) if "of" in packed else arrays[value]
    return Path(value) if kind == "path" else value


def _named_type(name: str) -> Any:
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name))
