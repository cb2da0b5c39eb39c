"""What the artifacts are made of: names, shapes, types and offsets, in `manifest.json` and inside every graph."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sardonyx import external, machine
from sardonyx.below import Folder, must_be_plain_names
from sardonyx.errors import BrokenModel, InputError, NotFound
from sardonyx.form import misfit
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
    def from_json(cls, text: str | bytes, where: str) -> Manifest:
        try:
            found = json.loads(text)
            version = found.pop("format")
            if version != FORMAT:
                raise InputError(
                    f"{where} has the format {str(version)[:40]}, and this is {FORMAT}",
                    hint="prepare the artifacts again",
                )
            wrong = misfit(found, _FORM)
            if wrong:
                raise ValueError(wrong)
            for name, kind in _PARTS.items():
                found[name] = tuple(kind(**{**row, "shape": tuple(row["shape"])}) for row in found[name])
            manifest = cls(**{**found, "extra_outputs": tuple(found["extra_outputs"])})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BrokenModel(f"{where} is no manifest: {error}", hint="prepare the artifacts again") from error
        manifest._must_be_sound(where)
        return manifest

    def _must_be_sound(self, where: str) -> None:
        """Raises for files outside of the folder, types that are none, and tensors that no machine like this could hold."""
        must_be_plain_names(self.files.values(), where)
        total = 0
        for tensor in (*self.inputs, *self.labels, *self.outputs, *self.state):
            if tensor.dtype not in _DTYPES or any(isinstance(size, int) and size < 0 for size in tensor.shape):
                raise BrokenModel(
                    f"{where}: '{tensor.name}' is no tensor: {tensor.dtype}{list(tensor.shape)}",
                    hint="prepare it again",
                )
        for kept in self.state:
            if len(kept.sizes) != len(kept.shape):
                raise BrokenModel(f"{where}: '{kept.name}' has sizes that vary", hint="prepare the artifacts again")
            total += kept.elements * numpy_dtype(kept).itemsize
        if total > machine.memory_bytes():
            raise BrokenModel(
                f"{where}: its parameters need {total:,} bytes, more than this machine's memory",
                hint="prepare the artifacts again, or use a machine with more memory",
            )
        ends = sorted((each.offset, each.offset + each.elements) for each in self.trainable)
        if any(one[1] > two[0] for one, two in pairwise(ends)) or (
            ends and ends[-1][1] > sum(each.elements for each in self.trainable)
        ):
            raise BrokenModel(f"{where}: its parameters do not lie side by side", hint="prepare the artifacts again")

    @classmethod
    def of(cls, model: str | Path) -> Manifest:
        """The manifest that a graph carries. A graph whose weights lie outside of its folder is refused."""
        proto = read_proto(Path(model))
        _must_stay_inside(proto, Path(model))
        props = {prop.key: prop.value for prop in proto.metadata_props}
        if KEY not in props:
            raise InputError(
                f"{model} is no training artifact",
                hint="make artifacts with sardonyx train prepare or generate_artifacts",
            )
        return cls.from_json(props[KEY], str(model))

    @classmethod
    def open(cls, folder: str | Path) -> Manifest:
        """The manifest of a folder of artifacts."""
        missing = NotFound(f"{folder} holds no training artifacts", hint=f"sardonyx train prepare MODEL -o {folder}")
        if not Path(folder).is_dir():
            raise missing
        try:
            with Folder(folder) as artifacts:
                text = artifacts.read(MANIFEST, at_most=AT_MOST)
        except NotFound:
            raise missing from None
        return cls.from_json(text, str(Path(folder) / MANIFEST))

    def file(self, folder: str | Path, kind: str) -> Path:
        """The path of one of the folder's files, which is a plain file of the folder itself."""
        if kind not in self.files:
            raise NotFound(f"{folder} has no {kind} file", hint="prepare the artifacts again")
        with Folder(folder) as artifacts:
            artifacts.size(self.files[kind], alone=False)
        return Path(folder) / self.files[kind]

    def graph(self, folder: str | Path, kind: str) -> Path:
        """The path of one of the folder's graphs: its weights lie in the folder too, and it carries this very manifest."""
        path = self.file(folder, kind)
        if Manifest.of(path).to_json() != Manifest.from_json(self.to_json(), str(folder)).to_json():
            raise BrokenModel(f"{path} and {MANIFEST} do not belong together", hint="prepare the artifacts again")
        return path

    def put_into(self, *models: Model) -> None:
        for model in models:
            model.ir.metadata_props[KEY] = self.to_json()


_PARTS: dict[str, Any] = {
    "inputs": Tensor, "labels": Label, "outputs": Tensor, "parameters": Parameter, "buffers": Kept, "moments": Moment,
}  # fmt: skip


_TENSOR = {"name": str, "dtype": str, "shape": [(int, str, None)]}
_KEPT = {**_TENSOR, "output": str}
_FORM = {
    "inputs": [_TENSOR], "labels": [{**_TENSOR, "classes": (int, None), "ignored": (int, None)}], "outputs": [_TENSOR],
    "parameters": [{**_KEPT, "offset": int}], "buffers": [_KEPT],
    "moments": [{**_KEPT, "parameter": str, "start": float}],
    "loss": str, "extra_outputs": [str], "optimizer?": str, "options?": dict, "loss_options?": dict, "learning_rate?": str,
    "step?": str, "seed?": (str, None), "reset?": str, "gradient_scale?": str, "files?": {str: str},
    "custom_op_library?": (str, None),
}  # fmt: skip
_DTYPES = frozenset(
    ("float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
# The manifest of a graph of ten thousand parameters takes a few megabytes.
AT_MOST = 32 << 20


def _must_stay_inside(proto: onnx.ModelProto, path: Path) -> None:
    trouble = external.findings(proto, path.parent)
    if trouble:
        raise BrokenModel(f"{path}: {trouble[0].where}: {trouble[0].message}", hint=trouble[0].hint)


def numpy_dtype(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(tensor.dtype)


def contiguous(parameters: Sequence[Parameter]) -> dict[str, slice]:
    """Where each trainable parameter lies in the contiguous array."""
    return {each.name: slice(each.offset, each.offset + each.elements) for each in parameters if each.trainable}
