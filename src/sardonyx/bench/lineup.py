"""Who takes part: a name, a runtime and a source for each word of the call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sardonyx import registry
from sardonyx.bench.variants._variant import How, Variant
from sardonyx.errors import NotFound, UsageError

PACKAGE = "sardonyx.bench.variants"
_NAMED = re.compile(r"([\w .+-]+)=(.+)", re.DOTALL)
_PREFIX = re.compile(r"([a-z][a-z0-9_-]+):(.+)", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """One variant before it is opened."""

    name: str
    runtime: str
    source: Any

    def opened(self, how: How) -> AbstractContextManager[Variant]:
        found: AbstractContextManager[Variant] = registry.load(PACKAGE, self.runtime).opened(self.source, how)
        return found


def line_up(sources: Sequence[Any]) -> list[Entry]:
    """The entries of the words or objects, or of one mapping of names to them. Names that would be equal are numbered."""
    if len(sources) == 1 and isinstance(sources[0], Mapping):
        given: list[tuple[str | None, Any]] = [(str(name), source) for name, source in sources[0].items()]
    else:
        given = [_named(source) for source in sources]
    if not given:
        raise UsageError("there is nothing to measure", hint="name one model or more: sardonyx bench A.onnx B.onnx")
    chosen = [_chosen(source) for _, source in given]
    names = [name or label for (name, _), label in zip(given, _labels([source for _, source in given]), strict=True)]
    return [Entry(name, *choice) for name, choice in zip(_distinct(names), chosen, strict=True)]


def runtimes() -> list[str]:
    """The prefixes that a word may have."""
    return [name.replace("_", "-") for name in registry.names(PACKAGE)]


def _named(source: Any) -> tuple[str | None, Any]:
    """'fp32=model.onnx' -> ('fp32', 'model.onnx'). A file whose name has such a sign stays whole."""
    found = _NAMED.fullmatch(source) if isinstance(source, str) and not Path(source).exists() else None
    return (found[1], found[2]) if found else (None, source)


def _chosen(source: Any) -> tuple[str, Any]:
    """The runtime and what it is to open: by the prefix, or by the first runtime that takes it without one."""
    if isinstance(source, tuple):
        return _known(str(source[0]), "the pair"), source[1]
    prefix = _PREFIX.fullmatch(source) if isinstance(source, str) and not Path(source).exists() else None
    if prefix and prefix[1] in runtimes():
        return _known(prefix[1], source), prefix[2]
    if prefix and Path(prefix[2]).exists():
        raise UsageError(f"{source}: there is no runtime '{prefix[1]}'", hint=f"there are {', '.join(runtimes())}")
    if isinstance(source, Path | str) and Path(source).suffix and ":" not in str(source) and not Path(source).exists():
        raise NotFound(f"{source} does not exist", hint="name a model file, a bundle, a folder, or file.py:factory")
    for name in registry.names(PACKAGE):
        if registry.load_light(PACKAGE, name).accepts(source):
            return name, source
    raise AssertionError("the original's runtime takes what no other does")


def _known(prefix: str, where: str) -> str:
    name = prefix.replace("-", "_")
    if name not in registry.names(PACKAGE):
        raise UsageError(f"{where}: there is no runtime '{prefix}'", hint=f"there are {', '.join(runtimes())}")
    return name


def _labels(sources: Sequence[Any]) -> list[str]:
    """A name for each: its file's name alone where that tells them apart."""
    whole = [_label(source) for source in sources]
    short = [re.sub(r"[^:=]*/(?=.)", "", label.rstrip("/")) for label in whole]
    sharing = {one: {label for label, other in zip(whole, short, strict=True) if other == one} for one in short}
    return [one if len(sharing[one]) == 1 else label for one, label in zip(short, whole, strict=True)]


def _label(source: Any) -> str:
    if isinstance(source, tuple):
        return f"{source[0]}:{_label(source[1])}"
    if isinstance(source, str | Path):
        return str(source)
    return str(getattr(source, "path", None) or type(source).__qualname__)


def _distinct(names: Sequence[str]) -> list[str]:
    earlier = (names[:index].count(name) for index, name in enumerate(names))
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, earlier, strict=True)]
