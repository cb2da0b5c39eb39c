"""How each stage is to be run: from sardonyx.toml, from the call, and what a stage's verb itself takes."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sardonyx
from sardonyx import callables, progress
from sardonyx.errors import NotFound, SardonyxError, Untrusted, UsageError

STAGES = ("convert", "check", "compare", "optimize", "quantize", "bench", "golden")
NEEDED = ("convert", "golden")
FILE = "sardonyx.toml"
# What ship itself fills in, and what would write files beside the bundle's own.
_OURS = {
    "convert": {"source", "output"},
    "check": {"path", "fix"},
    "compare": {"reference", "candidate", "source_options"},
    "optimize": {"model", "output"},
    "quantize": {"model", "output", "plot"},
    "bench": {"variants", "plot", "weights", "python", "trust", "inputs"},
    "golden": {"model", "target"},
}
# Keywords that grant something, with the option of the command line that grants it.
# Weights are among them: a pickle of weights runs as soon as somebody says --trust for the source.
_GRANTS = {"trust": "--trust", "python": "--python", "weights": "--weights"}
_AT_MOST = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Keywords by stage, the stages that are left out, and the file that said some of it."""

    options: Mapping[str, Mapping[str, Any]]
    skip: tuple[str, ...] = ()
    config: str | None = None

    def of(self, stage: str) -> dict[str, Any]:
        return dict(self.options.get(stage, {}))


def gather(
    config: str | Path | None,
    settings: Mapping[str, Mapping[str, Any]],
    skip: Iterable[str],
    convert_options: Mapping[str, Any],
) -> Settings:
    """What the file says, and over it what the call says. Without a name, a sardonyx.toml in this folder is taken.

    A file that nobody named may have come with the folder: it tunes stages, and says nothing that would run a program.
    """
    path = Path(config) if config is not None else Path(FILE)
    taken = config is not None or path.is_file()
    said = _read(path) if taken else {}
    if taken:
        progress.say(f"settings of {path}")
    if config is None:
        _must_run_nothing(said, path)
    skipped = [*_listed(said.pop("skip", []), path), *([skip] if isinstance(skip, str) else skip)]
    found: dict[str, dict[str, Any]] = {}
    for where, tables in ((str(path), said), ("the call", settings), ("the call", {"convert": _set(convert_options)})):
        for stage, keywords in tables.items():
            _known(stage, STAGES, f"{where}: there is no stage '{stage}'")
            if not isinstance(keywords, Mapping):
                raise UsageError(f"{where}: {stage} is not a table", hint=f"write [{stage}] and its keywords below it")
            for name in keywords:
                _known(name, keywords_of(stage), f"{where}: {stage} has no keyword '{name}'")
            found.setdefault(stage, {}).update(keywords)
    optional = [stage for stage in STAGES if stage not in NEEDED]
    for stage in skipped:
        _known(stage, optional, f"the stage '{stage}' cannot be skipped")
    return Settings(found, tuple(dict.fromkeys(skipped)), str(path) if taken else None)


def texts_of(config: str | Path | None, words: Iterable[str]) -> tuple[list[str], bool]:
    """(every text in the settings file and in the words of `--set`, whether the user grants trust or names a program there).

    For the process that confines ship before it runs. What cannot be read is left for `gather` to report.
    """
    call, file = {}, {}
    with suppress(SardonyxError):
        call = parsed(words)
    with suppress(SardonyxError):
        file = _read(Path(FILE if config is None else config))
    grants = [*_granting(call), *(_granting(file) if config is not None else ())]
    return [*_texts(call), *_texts(file)], bool(grants)


def _granting(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(stage, keyword) of each value that would trust a file, start an interpreter or call a function."""
    for stage, keywords in said.items():
        for name, value in keywords.items() if isinstance(keywords, Mapping) else ():
            if name in _GRANTS or any(map(_is_program, _texts(value))):
                yield stage, name


def _must_run_nothing(said: Mapping[str, Any], path: Path) -> None:
    """Raises `Untrusted` for a keyword that would trust a file, start an interpreter or call a function."""
    for stage, name in _granting(said):
        option = _GRANTS.get(name) or f"--set {stage}.{name}=…"
        raise Untrusted(
            f"{path}: {stage}.{name} may run a program, which only a file named on the command line can ask for",
            hint=f"give {option} on the command line, or name the file: --config {path}",
        )


def _is_program(text: str) -> bool:
    return callables.is_reference(text) or text.endswith(".py")


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value of TOML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in (*value, *value.values()) for text in _texts(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts(item))


def keywords_of(stage: str) -> list[str]:
    """The keywords that a stage may be given: those of its verb's function that ship does not fill in."""
    from sardonyx.bundle.golden import keep_cases

    function = keep_cases if stage == "golden" else getattr(sardonyx, stage)
    return [name for name in inspect.signature(function).parameters if name not in _OURS[stage]]


def parsed(words: Iterable[str]) -> dict[str, dict[str, Any]]:
    """['quantize.budget=2%'] -> {'quantize': {'budget': '2%'}}. A value is read as TOML where it is that."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        place, equals, value = word.partition("=")
        stage, dot, name = place.partition(".")
        if not (equals and dot and name):
            raise UsageError(f"--set {word} names no stage and keyword", hint="write it as --set quantize.budget=2%")
        found.setdefault(stage.strip(), {})[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the caller really said: a keyword that is left at nothing must not hide what the file says."""
    return {name: value for name, value in options.items() if not (value is None or value is False or _empty(value))}


def _empty(value: Any) -> bool:
    return isinstance(value, list | tuple | str) and not value


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_AT_MOST + 1)
        if len(text) > _AT_MOST:
            raise ValueError(f"it has more than {_AT_MOST} bytes")
        return tomllib.loads(text.decode())
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist", hint="check the spelling of the path") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="it must be TOML with a table for each stage"
        ) from error


def _listed(value: Any, path: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{path}: skip is not a list of stages", hint='write it as skip = ["quantize"]')
    return value


def _known(word: str, names: Iterable[str], trouble: str) -> None:
    known = list(names)
    if word in known:
        return
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
    raise UsageError(trouble, hint=hint)
