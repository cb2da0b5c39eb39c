"""Which models there are to serve: one file, one bundle, or a repository of NAME/VERSION/model.onnx. Nothing is trusted."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sardonyx.bundle_model import MODEL, RECORD, model_in
from sardonyx.errors import NotFound
from sardonyx.serve.refusal import plain

_log = logging.getLogger(__name__)
_VERSION = re.compile("[0-9]{1,18}")


@dataclass(frozen=True)
class Entry:
    """A model that can be loaded."""

    name: str
    version: str
    path: Path


def find(source: Path) -> list[Entry]:
    """Every model under the source, in order of name and version, or `NotFound`."""
    if source.is_file():
        return [Entry(source.stem, "1", source)]
    if not source.is_dir():
        raise NotFound(f"{source} does not exist", hint="give a model, a bundle or a repository")
    if (source / RECORD).is_file():
        return [Entry(source.resolve().name, "1", _of_bundle(source))]
    found = [entry for folder in _folders(source) for entry in _versions(source, folder)]
    if not found:
        raise NotFound(
            f"{source} holds no model", hint="lay a repository out as NAME/VERSION/model.onnx, or give a model file"
        )
    return found


def named(source: Path, name: str) -> list[Entry]:
    """The versions of one model as they lie there now. The name is a client's, and reaches no path."""
    return [entry for entry in find(source) if entry.name == name]


def _versions(root: Path, folder: Path) -> Iterator[Entry]:
    if (folder / RECORD).is_file():
        try:
            yield Entry(folder.name, "1", _of_bundle(folder))
        except Exception as error:  # noqa: BLE001  whatever is wrong, the other models of the repository are served
            _log.warning("refused %s: %s", plain(str(folder)), plain(f"{type(error).__name__}: {error}"))
        return
    numbered = [child for child in _folders(folder) if _VERSION.fullmatch(child.name)]
    for version in sorted(numbered, key=lambda child: int(child.name)):
        path = version / MODEL
        if path.is_file() and _inside(path, root):
            yield Entry(folder.name, str(int(version.name)), path)


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    except OSError as error:
        _log.warning("refused %s: %s", plain(str(folder)), error.strerror)
        return []


def _inside(path: Path, root: Path) -> bool:
    if path.resolve().is_relative_to(root.resolve()):
        return True
    _log.warning("refused %s: a link leads out of the repository", plain(str(path)))
    return False


def _of_bundle(folder: Path) -> Path:
    """The bundle's model, if it lies in the bundle and its bytes are those that the bundle was made with."""
    if not _inside(folder / MODEL, folder):
        raise NotFound(f"{folder / MODEL} is not there", hint="ship the model again")
    return model_in(folder)
