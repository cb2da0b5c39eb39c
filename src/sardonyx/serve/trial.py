"""Models are first tried in a child process: loaded, run, and run with sizes of 0. A crash there is not one of the server."""

from __future__ import annotations

import hashlib
import signal
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sardonyx import child, machine
from sardonyx.errors import BrokenModel, RuntimeRefused, SardonyxError
from sardonyx.golden import GOLDEN
from sardonyx.serve.options import Options

# A child needs this much address space to start at all.
_LEAST_MEMORY = 4 << 30
_START_SECONDS = 60.0
# What was found of a model is kept, for when it is loaded again; larger files are not hashed for it.
_KEPT, _HASHED_BYTES = 256, 64 << 20
_known: dict[tuple[Any, ...], Verdict] = {}


@dataclass(frozen=True)
class Verdict:
    """What a child found: an error, or the dynamic dimensions that may be 0, each tuple at once."""

    error: SardonyxError | None = None
    empties: tuple[tuple[str, ...], ...] = ()


def try_models(paths: Iterable[Path], options: Options) -> dict[Path, Verdict]:
    """What a child found of each model. Takes its time: call it in a thread."""
    keys = {path: _key(path, options) for path in paths}
    verdicts = {path: _known[key] for path, key in keys.items() if key is not None and key in _known}
    left = [path for path in keys if path not in verdicts]
    for path, said in zip(left, _call(left, options) if left else (), strict=True):
        verdicts[path] = _verdict(path, said)
        key = keys[path]
        if key is not None and said.get("alone"):
            if len(_known) >= _KEPT:
                _known.clear()
            _known[key] = verdicts[path]
    return verdicts


def _call(paths: list[Path], options: Options) -> list[dict[str, Any]]:
    """What the child says of each model, which is a crash of all where it cannot say anything."""
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        request = {
            "paths": [str(path.absolute()) for path in paths], "provider": options.provider,
            "threads": options.threads_each, "pad": options.batching.pad, "most": options.batching.most,
            "seconds": options.load_seconds, "notes": str(Path(scratch) / "notes.json"),
        }  # fmt: skip
        outcome = child.call(
            child.module("sardonyx.serve.tried", ends_with_thread=False), request, memory=_memory(options),
            timeout=_START_SECONDS + 2 * options.load_seconds * len(paths),
        )  # fmt: skip
    said = outcome.answer.get("models")
    return said if outcome.end == "answered" and said else [{"crash": outcome.reason}] * len(paths)


def _verdict(path: Path, said: dict[str, Any]) -> Verdict:
    if "crash" in said:
        code = said["crash"]
        why = code
        if isinstance(code, int):
            why = f"killed by {signal.Signals(-code).name}" if code < 0 else "it ran out of memory"
        what = "is not loaded and run in time" if code == -signal.SIGALRM else f"ends the process that runs it: {why}"
        return Verdict(BrokenModel(f"{path} {what}", hint=f"sardonyx check {path}"))
    if "error" in said:
        error = said["error"]
        return Verdict(as_error(error["code"], error["message"], error["hint"]))
    return Verdict(None, tuple(tuple(names) for names in said["empties"]))


def as_error(code: str, message: str, hint: str) -> SardonyxError:
    """The error of another process under its own code, as if it had been raised here."""
    kinds: list[type[SardonyxError]] = [SardonyxError]
    while kinds:
        kind = kinds.pop()
        if kind.code == code:
            return kind(message, hint=hint)
        kinds.extend(kind.__subclasses__())
    return RuntimeRefused(message, hint=hint)


def _memory(options: Options) -> int | None:
    """The address space of the child. Other processors than the CPU map more of it than there is memory."""
    if options.provider != "cpu":
        return None
    most = max(_LEAST_MEMORY, machine.memory_bytes())
    with suppress(ImportError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return most


def _key(path: Path, options: Options) -> tuple[Any, ...] | None:
    """What the verdict hangs on; None for a file that is too large to hash, or that has golden cases beside it."""
    try:
        if path.stat().st_size > _HASHED_BYTES or (path.parent / GOLDEN).exists():
            return None
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
    return digest, options.provider, options.threads_each, options.batching.most, options.batching.pad
