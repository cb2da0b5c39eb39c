"""How a model came to be: one step per verb, kept inside the model file and copied into bundles."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

from sardonyx.errors import BrokenModel

KEY = "sardonyx.history"
_WATCHED = ("sardonyx", "onnx", "onnxruntime", "onnx-ir", "onnxscript", "numpy")


@dataclass(frozen=True)
class Step:
    """One verb applied to the model: with which options, by which library versions."""

    verb: str
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


History = tuple[Step, ...]


def step(verb: str, *, options: dict[str, Any] | None = None, also: tuple[str, ...] = (), **notes: Any) -> Step:
    """A step that records the versions of our own libraries and of those in `also`."""
    return Step(verb, options or {}, versions(*also), notes)


def versions(*also: str) -> dict[str, str]:
    """Installed versions of the distributions that decide what a model computes."""
    return {name: version for name in (*_WATCHED, *also) if (version := installed_version(name))}


def installed_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def dumps(history: History) -> str:
    return json.dumps([asdict(item) for item in history], ensure_ascii=False, default=str)


def loads(text: str) -> History:
    try:
        return tuple(_step(item) for item in json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise BrokenModel(
            f"the model's '{KEY}' metadata is not a history: {error}",
            hint=f"remove the '{KEY}' entry from the model's metadata",
        ) from error


def _step(item: dict[str, Any]) -> Step:
    step = Step(**item)
    if not isinstance(step.verb, str) or not all(
        isinstance(part, dict) for part in (step.options, step.versions, step.notes)
    ):
        raise TypeError("a step is a verb with options, versions and notes")
    return step
