"""Which verbs meet a stranger's file in a process of their own, what that process may touch, and how long it may take."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sardonyx import callables, containment, process
from sardonyx.containment import Work
from sardonyx.report import Report
from sardonyx.sandbox import Confinement

Options = Mapping[str, Any]

# Seconds for a model of no size; a large one gets more. None: the verb has limits of its own for each part.
_MINUTES_FIVE, _HOUR = 300.0, 3600.0
SECONDS: dict[str, Callable[[Options], float | None]] = {
    "bench": lambda given: None,  # noqa: ARG005
    "check": lambda given: given.get("timeout") and 20 * given["timeout"] + _MINUTES_FIVE,
    "compare": lambda given: _HOUR,  # noqa: ARG005
    "convert": lambda given: None,  # noqa: ARG005
    "inspect": lambda given: _MINUTES_FIVE,  # noqa: ARG005
    "optimize": lambda given: 3 * given["seconds"] + _MINUTES_FIVE,
    "package": lambda given: _MINUTES_FIVE,  # noqa: ARG005
    "quantize": lambda given: 3 * given["time"] + _MINUTES_FIVE,
    "run": lambda given: given["timeout"],
    "ship": lambda given: None,  # noqa: ARG005
    "train evaluate": lambda given: None,  # noqa: ARG005
    "train export": lambda given: _HOUR,  # noqa: ARG005
    "train prepare": lambda given: _HOUR,  # noqa: ARG005
    "train run": lambda given: None,  # noqa: ARG005
    "verify": lambda given: 2 * given["timeout"] + _MINUTES_FIVE,
    "view": lambda given: _HOUR,  # noqa: ARG005
}
_BYTES_A_SECOND = 16 << 20
# Seconds of computing, which do not grow when the machine is busy, for verbs that only read a model.
_COMPUTING, _COMPUTED_A_SECOND = 15.0, 2 << 20
MORE_TIME = {"run": "give it more time with --timeout; the model may also never end"}
# Those that do their work without other processes.
ALONE = {"inspect", "run", "train evaluate", "train run"}
# What the options of these names hold is written.
WRITTEN = ("output", "plot", "fix", "embed_preprocessing", "folder")
# Code of the user: it may open and do what the user may.
SOURCES = ("source", "reference", "variants")


def call(verb: str, do: Callable[[], Report], options: Options) -> Report:
    """The report of the verb, done in a process of its own where it has to be, and in this one elsewhere."""
    if verb not in SECONDS or not process.command() or not containment.possible() or not _local(options):
        return do()
    return containment.forked(work(verb, options), do)


def work(verb: str, options: Options) -> Work:
    """How the verb is contained when it is called so."""
    settings, granted = _settings(verb, options)
    given = [*(value for name, value in options.items() if name != "output"), settings]
    paths = [path for value in given for path in named_paths(value)]
    seconds = SECONDS[verb](options)
    about = next(
        (str(options[name]) for name in ("model", "source", "candidate", "bundle", "folder") if name in options), ""
    )
    return Work(
        verb=verb,
        about=about,
        confinement=_confinement(verb, options, paths, theirs=granted or runs_code_of_the_user(options)),
        seconds=None if seconds is None else seconds + (0 if verb == "run" else _size(paths) / _BYTES_A_SECOND),
        more_time=MORE_TIME.get(verb, ""),
        outputs=tuple(Path(word).absolute() for word in _written(options)),
    )


def _settings(verb: str, options: Options) -> tuple[list[str], bool]:
    """(texts that the settings of ship hold, the file's own name among them; whether they run code of the user)."""
    if verb != "ship":
        return [], False
    from sardonyx.bundle.settings import FILE, texts_of

    texts, granted = texts_of(options.get("config"), options.get("set", ()))
    return [FILE, *texts], granted


def _confinement(verb: str, options: Options, paths: list[Path], *, theirs: bool) -> Confinement:
    accelerated = options.get("provider", "cpu") != "cpu"
    writes = tuple(dict.fromkeys(_folders(options)))
    return Confinement(
        reads=tuple(dict.fromkeys(str(folder) for path in paths for folder in _around(path))),
        writes=writes,
        files=not theirs,
        network=theirs,
        processes=theirs or verb not in ALONE,
        devices=accelerated,
        cpu=_COMPUTING + _size(paths) / _COMPUTED_A_SECOND if only_reads(verb, options) else None,
        memory=None if accelerated else containment.address_space(*paths),
        file_size=max(shutil.disk_usage(folder).free for folder in (tempfile.gettempdir(), *writes)),
    )


def only_reads(verb: str, options: Options) -> bool:
    """Whether the verb runs no model, so that its time depends on the size of the file alone."""
    return verb == "inspect" or (verb == "view" and not options.get("overlay"))


def _size(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())


def runs_code_of_the_user(options: Options) -> bool:
    """Whether the user named Python code to be run, or said that the file is trusted."""
    if options.get("trust"):
        return True
    words = [word for name in (*SOURCES, "data", "metric", "valid") for word in _words(options.get(name))]
    return any(callables.is_reference(word.partition("=")[2] or word) or callables.is_reference(word) for word in words)


def named_paths(value: Any) -> Iterator[Path]:
    """The files and folders that are there and that a word of the command names, as m.onnx, x=m.onnx or openvino:m.onnx."""
    for word in _words(value):
        parts = {word, word.partition("=")[2], word.partition(":")[2], word.rpartition(":")[0]}
        parts.add(word.partition("=")[2].partition(":")[2])
        for part in sorted(filter(None, parts)):
            try:
                if os.path.lexists(part):
                    yield Path(part)
            except ValueError:  # a NUL
                continue


def models(options: Options) -> list[Path]:
    """The files that a command names and that an error may be the fault of."""
    return [path for value in options.values() for path in named_paths(value) if path.suffix == ".onnx"]


def _around(path: Path) -> Iterator[Path]:
    """What is read with a path: of a file its folder, where its weights lie, and itself where it is a link."""
    real = Path(os.path.realpath(path))
    yield real if real.is_dir() else path.absolute().parent
    yield real
    if os.access(real, os.X_OK) and real.is_file() and path.parent.name in ("bin", "Scripts"):  # an interpreter
        yield from (path.absolute().parent.parent, real.parent.parent)


def _folders(options: Options) -> Iterator[str]:
    """The folders that outputs are written to, beside the output itself, under a temporary name first."""
    for word in _written(options):
        folder = os.path.realpath(os.path.dirname(os.path.abspath(word)))
        if os.path.isdir(folder):
            yield folder


def _written(options: Options) -> list[str]:
    return [word for name in WRITTEN for word in _words(options.get(name))]


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, str | Path):
        return [str(value)]
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _local(options: Options) -> bool:
    """Whether the work is this machine's alone: neither a cluster's nor a browser's."""
    return options.get("engine", "local") == "local" and not options.get("netron")
