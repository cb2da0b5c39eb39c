"""What every variant offers, and how it is to be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sardonyx import external
from sardonyx.bench.interleave import Turn
from sardonyx.errors import NotFound
from sardonyx.model import Model
from sardonyx.proto import read_proto
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import recognise


@dataclass(frozen=True)
class How:
    """How to run the variants. `threads` of None means every CPU that the container has."""

    threads: int | None = None
    provider: str = "cpu"
    weights: str | Path | None = None
    python: str | Path | None = None
    trust: bool = False
    timeout: float = 300


@dataclass(frozen=True)
class Cold:
    """A fresh process from its start to its first answer: the seconds it took and the most bytes it held."""

    seconds: float | None = None
    memory: int | None = None


class Variant(Protocol):
    """An open variant.

    `signature` is what it says of its inputs, if it says anything. `takes` is what inputs must fit, and None where the
    framework itself matches them to its own names. `onnx` is the file that onnxruntime can profile. `answers` are the outputs
    for some inputs, in the variant's own order.
    """

    @property
    def signature(self) -> Signature | None: ...
    @property
    def takes(self) -> Signature | None: ...
    @property
    def size(self) -> int | None: ...
    @property
    def onnx(self) -> Path | None: ...
    def prepare(self, inputs: Arrays) -> Turn: ...
    def cold(self, inputs: Arrays) -> Cold: ...
    def answers(self, inputs: Arrays) -> Sequence[Any]: ...


def as_onnx(source: Any) -> Path | Model | None:
    """The ONNX model, if the source is one or a bundle that holds one."""
    if isinstance(source, Model):
        return source
    if not isinstance(source, str | Path):
        return Model.from_proto(source) if type(source).__name__ == "ModelProto" else None
    path = Path(source)
    if (path / "bundle.json").is_file():
        return path / "model.onnx"
    if path.suffix.lower() == ".onnx" or (path.is_file() and recognise(source, trust=True).plugin == "onnx"):
        return path
    return None


def existing(path: Path) -> Path:
    if not path.exists():
        raise NotFound(f"{path} does not exist", hint="check the spelling of the path")
    return path


def file_bytes(path: Path) -> int:
    """The size of a file or of everything in a folder."""
    return (
        sum(item.stat().st_size for item in path.rglob("*") if item.is_file()) if path.is_dir() else path.stat().st_size
    )


def onnx_bytes(path: Path) -> int:
    """The size of a model with its external data."""
    outside = {entry.location for entry in external.entries(read_proto(path))}
    return path.stat().st_size + sum((path.parent / location).stat().st_size for location in outside)
