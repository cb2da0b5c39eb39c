"""The names of classes: one a line in a text file, a JSON list or map, or what the model itself carries."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sardonyx.errors import BadData, NotFound
from sardonyx.model import Model

# Where models keep their labels: ours, and that of the widespread YOLO exporters, a Python dict written out.
_KEYS = ("sardonyx.labels", "names")
KEY = _KEYS[0]


def read(path: str | Path) -> tuple[str, ...]:
    """The labels of a file in the order of the classes. In a text file an empty line is an error, but at the end."""
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"the labels file {path} does not exist", hint="check the spelling of the path")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadData(f"{path} is not text", hint="labels are one name a line, or a JSON list") from error
    if text.lstrip()[:1] in ("[", "{"):
        return _from_json(text, str(path))
    lines = [line.strip() for line in text.rstrip().split("\n")]
    if not all(lines):
        empty = "has no labels" if lines == [""] else f"has an empty line {lines.index('') + 1}"
        raise BadData(f"{path} {empty}", hint="write one name a line, in the order of the classes")
    return tuple(lines)


def carried(model: Model) -> tuple[str, ...] | None:
    """The labels in the model's metadata, if it has any that can be read."""
    for key in _KEYS:
        text = model.ir.metadata_props.get(key)
        if text:
            try:
                return _in_order(ast.literal_eval(text), key)
            except (ValueError, SyntaxError, BadData, RecursionError, MemoryError):
                continue  # another tool's metadata may mean something else by the name
    return None


def named(labels: Sequence[str] | None, index: int) -> str:
    """The label of a class, or its number where there are no labels."""
    return labels[index] if labels is not None and 0 <= index < len(labels) else str(index)


def must_count(labels: Sequence[str] | None, classes: int) -> None:
    """Raises where the labels are not as many as the model's classes: shifted names are worse than none."""
    if labels is None or len(labels) == classes:
        return
    off = "; the model has one more, often a background class that comes first" if classes == len(labels) + 1 else ""
    raise BadData(
        f"there are {len(labels):,} labels, and the model tells {classes:,} classes apart",
        hint=f"give one label for each class, in their order{off}",
    )


def dumps(labels: Sequence[str]) -> str:
    return json.dumps(list(labels), ensure_ascii=False)


def _from_json(text: str, where: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadData(f"{where} is not JSON: {error}", hint='write a list, as ["cat", "dog"]') from error
    return _in_order(found, where)


def _in_order(found: Any, where: str) -> tuple[str, ...]:
    """A list of names, or a map from the numbers 0, 1, … to names, or to lists whose last entry is the name."""
    if isinstance(found, dict):
        try:
            numbered = sorted((int(key), value) for key, value in found.items())
        except (ValueError, TypeError):
            numbered = []
        if not numbered or [key for key, _ in numbered] != list(range(len(numbered))):
            raise BadData(f"the keys of {where} are not 0, 1, 2, …", hint='write a list, as ["cat", "dog"]')
        found = [value[-1] if isinstance(value, list) and value else value for _, value in numbered]
    if not isinstance(found, list | tuple) or not found or not all(isinstance(name, str) for name in found):
        raise BadData(f"{where} is not a list of names", hint='write a list, as ["cat", "dog"]')
    return tuple(found)
