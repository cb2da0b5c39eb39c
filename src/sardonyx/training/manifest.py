"""What the artifacts are made of: names, shapes, types and offsets, in `manifest.json` and inside every graph."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.errors import BrokenModel, InputError, NotFound
from sardonyx.model import Model
from sardonyx.proto import read_proto

KEY = "sardonyx.training"
FORMAT = 1
FILES = {
    "training": "training_model.onnx",
    "evaluation": "eval_model.onnx",
    "optimizer": "optimizer_model.onnx",
    "step": "step_model.onnx",
    "checkpoint": "checkpoint",
    "shapes": "shapes.json",
}
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Tensor:
    """A tensor by name, with its type and shape, of which a name or None is a size that varies."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a tensor whose sizes are all known."""
        return tuple(size for size in self.shape if isinstance(size, int))

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Kept(Tensor):
    """A tensor that the graphs take as `name` and give back, changed, as `output`; an empty output means it never changes."""

    output: str = ""


@dataclass(frozen=True)
class Parameter(Kept):
    """A parameter. `offset` is its place, in elements, in the contiguous array of the trainable ones; -1 if it is frozen."""

    offset: int = -1

    @property
    def trainable(self) -> bool:
        return self.offset >= 0

    @property
    def gradient(self) -> str:
        return f"{self.name}_grad"


@dataclass(frozen=True)
class Moment(Kept):
    """What the optimizer remembers of one parameter, and the number that it starts at."""

    parameter: str = ""
    start: float = 0.0


@dataclass(frozen=True)
class Label(Tensor):
    """A target. `classes` are how many there are, if it holds class numbers; `ignored` is the number that does not count."""

    classes: int | None = None
    ignored: int | None = None


@dataclass(frozen=True)
class Manifest:
    """The contents of a folder of training artifacts."""

    inputs: tuple[Tensor, ...]
    labels: tuple[Label, ...]
    outputs: tuple[Tensor, ...]
    loss: str
    extra_outputs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    buffers: tuple[Kept, ...]
    moments: tuple[Moment, ...]
    optimizer: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: str = "learning_rate"
    step: str = "step"
    seed: str | None = None
    reset: str = "lazy_reset_grad"
    gradient_scale: str = "gradient_scale"
    files: Mapping[str, str] = field(default_factory=lambda: dict(FILES))
    custom_op_library: str | None = None

    @property
    def trainable(self) -> tuple[Parameter, ...]:
        """The trainable parameters in the order of the contiguous array."""
        return tuple(parameter for parameter in self.parameters if parameter.trainable)

    @property
    def state(self) -> tuple[Kept, ...]:
        """Everything that a training run changes or carries: parameters, statistics and moments."""
        return (*self.parameters, *self.buffers, *self.moments)

    def shapes(self) -> list[dict[str, Any]]:
        """`shapes.json`: enough to cut a contiguous array back into matrices."""
        return [{"name": parameter.name, "shape": list(parameter.shape)} for parameter in self.trainable]

    def to_json(self, *, indent: int | None = None) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=indent)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        try:
            found = json.loads(text)
            version = found.pop("format")
            if version != FORMAT:
                raise InputError(
                    f"{where} has the format {version}, and this is {FORMAT}", hint="prepare the artifacts again"
                )
            for name, kind in _PARTS.items():
                found[name] = tuple(kind(**{**row, "shape": tuple(row["shape"])}) for row in found[name])
            return cls(**{**found, "extra_outputs": tuple(found["extra_outputs"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BrokenModel(f"{where} is no manifest: {error}", hint="prepare the artifacts again") from error

    @classmethod
    def of(cls, model: str | Path) -> Manifest:
        """The manifest that a graph carries."""
        props = {prop.key: prop.value for prop in read_proto(Path(model)).metadata_props}
        if KEY not in props:
            raise InputError(
                f"{model} is no training artifact",
                hint="make artifacts with sardonyx train prepare or generate_artifacts",
            )
        return cls.from_json(props[KEY], str(model))

    @classmethod
    def open(cls, folder: str | Path) -> Manifest:
        """The manifest of a folder of artifacts."""
        path = Path(folder) / MANIFEST
        if not path.is_file():
            raise NotFound(f"{folder} holds no training artifacts", hint=f"sardonyx train prepare MODEL -o {folder}")
        return cls.from_json(path.read_text(encoding="utf-8"), str(path))

    def put_into(self, *models: Model) -> None:
        for model in models:
            model.ir.metadata_props[KEY] = self.to_json()


_PARTS: dict[str, Any] = {
    "inputs": Tensor, "labels": Label, "outputs": Tensor, "parameters": Parameter, "buffers": Kept, "moments": Moment,
}  # fmt: skip


def numpy_dtype(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(tensor.dtype)


def contiguous(parameters: Sequence[Parameter]) -> dict[str, slice]:
    """Where each trainable parameter lies in the contiguous array."""
    return {each.name: slice(each.offset, each.offset + each.elements) for each in parameters if each.trainable}
