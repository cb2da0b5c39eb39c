"""A checkpoint: parameters, statistics, moments and where the run stands, in one safetensors file that is whole or not there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import machine
from sardonyx.errors import BadData, InputError, NotFound
from sardonyx.files import replacing
from sardonyx.form import misfit
from sardonyx.signature import Array, Arrays
from sardonyx.training.manifest import Kept, Manifest, Tensor

_FORMAT = "sardonyx-checkpoint-1"
Property = int | float | str


@dataclass
class Parameter:
    """A parameter of a state: `data` can be read and assigned, `grad` is None before the first training step."""

    name: str
    requires_grad: bool
    _state: CheckpointState = field(repr=False)

    @property
    def data(self) -> Array:
        return self._state.arrays[self.name]

    @data.setter
    def data(self, value: Array) -> None:
        _fill(self._state.arrays[self.name], value, self.name)

    @property
    def grad(self) -> Array | None:
        return self._state.gradients.get(self.name)


class Parameters:
    """The parameters of a state by name: `state.parameters["fc.weight"].data`. Walking over them gives pairs."""

    def __init__(self, state: CheckpointState) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Parameter:
        if name not in self._state.trainable:
            raise KeyError(name)
        return Parameter(name, self._state.trainable[name], self._state)

    def __setitem__(self, name: str, value: Array) -> None:
        self[name].data = value

    def __contains__(self, name: object) -> bool:
        return name in self._state.trainable

    def __iter__(self) -> Iterator[tuple[str, Parameter]]:
        return ((name, self[name]) for name in self._state.trainable)

    def __len__(self) -> int:
        return len(self._state.trainable)

    def __repr__(self) -> str:
        return f"Parameters({', '.join(self._state.trainable)})"


class Properties:
    """Numbers and words of the user's own, kept in the checkpoint. Walking over them gives pairs."""

    def __init__(self, values: Mapping[str, Property] | None = None) -> None:
        self.values = dict(values or {})

    def __getitem__(self, name: str) -> Property:
        return self.values[name]

    def __setitem__(self, name: str, value: Property) -> None:
        if not isinstance(value, int | float | str):
            raise BadData(f"the property '{name}' is a {type(value).__name__}", hint="give an int, a float or a str")
        self.values[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[tuple[str, Property]]:
        return iter(list(self.values.items()))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Properties({self.values})"


@dataclass
class CheckpointState:
    """Everything that a training run carries from step to step.

    `trainable` tells of every parameter whether it learns. `arrays` hold parameters, statistics and moments. `progress` is
    where the loop stands; `properties` are the user's own numbers and words. A `nominal` state knows its parameters by name
    alone, until `Module.copy_buffer_to_parameters` fills them.
    """

    arrays: Arrays
    trainable: dict[str, bool]
    step: int = 0
    properties: Properties = field(default_factory=Properties)
    progress: dict[str, Any] = field(default_factory=dict)
    gradients: Arrays = field(default_factory=dict)
    nominal: bool = False

    @property
    def parameters(self) -> Parameters:
        return Parameters(self)

    @classmethod
    def start(cls, manifest: Manifest, values: Mapping[str, Array]) -> CheckpointState:
        """The state before the first step."""
        state = cls(
            {name: np.array(value) for name, value in values.items()},
            {parameter.name: parameter.trainable for parameter in manifest.parameters},
        )
        state.add_moments(manifest)
        return state

    def make_room(self, manifest: Manifest) -> None:
        """Gives a nominal state parameters of the right shapes, which wait to be filled."""
        for parameter in manifest.parameters:
            self.arrays.setdefault(parameter.name, np.zeros(parameter.sizes, parameter.dtype))

    def add_moments(self, manifest: Manifest) -> None:
        """Gives the optimizer the memory that it starts with, where the checkpoint has none."""
        for moment in manifest.moments:
            if moment.name not in self.arrays:
                self.arrays[moment.name] = np.full(moment.sizes, moment.start, moment.dtype)

    @classmethod
    def load_checkpoint(cls, checkpoint_uri: str | Path) -> CheckpointState:
        """The state in a file."""
        from safetensors import SafetensorError, safe_open

        path = Path(checkpoint_uri)
        if not path.is_file():
            raise NotFound(
                f"there is no checkpoint {path}", hint="name a file that save_checkpoint or prepare has written"
            )
        try:
            if path.stat().st_size > machine.memory_bytes():
                raise ValueError("it is larger than this machine's memory")
            with safe_open(path, framework="np") as file:
                about = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
        except (SafetensorError, ValueError, OSError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} cannot be read: {error}", hint="use an earlier checkpoint") from error
        if about.get("format") != _FORMAT:
            raise InputError(
                f"{path} is no checkpoint of a training run", hint="name one that prepare or run has written"
            )
        said = _said(about, path)
        return cls(
            arrays, said["trainable"], said["step"], Properties(said["properties"]), said["progress"],
            nominal=about.get("nominal") == "true",
        )  # fmt: skip

    @staticmethod
    def save_checkpoint(
        state: CheckpointState, checkpoint_uri: str | Path, include_optimizer_state: bool = False
    ) -> None:
        """Writes the state; a crash or a full disk leaves the old file as it was."""
        arrays = state.arrays
        if not include_optimizer_state:
            arrays = {name: value for name, value in arrays.items() if not _is_moment(name, state.trainable)}
        state._write(Path(checkpoint_uri), arrays)

    def save(self, path: str | Path) -> None:
        """Writes everything, the optimizer's memory included."""
        self._write(Path(path), self.arrays)

    def _write(self, path: Path, arrays: Mapping[str, Array]) -> None:
        from safetensors.numpy import save

        about = {
            "format": _FORMAT, "step": str(self.step), "trainable": json.dumps(self.trainable),
            "properties": json.dumps(self.properties.values), "progress": json.dumps(self.progress),
            "nominal": json.dumps(self.nominal),
        }  # fmt: skip
        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=about)
        with replacing(path) as temporary:
            temporary.write_bytes(content)

    def check(self, manifest: Manifest) -> None:
        """Raises an error that names the first tensor that does not belong to these artifacts."""
        wanted: Sequence[Kept] = (*manifest.parameters, *manifest.buffers)
        for tensor in wanted:
            _same(tensor, self.arrays.get(tensor.name))
        strange = sorted(set(self.trainable) - {tensor.name for tensor in wanted})
        if strange:
            raise _another(f"the model has no parameter '{strange[0]}'")
        for moment in manifest.moments:
            if moment.name in self.arrays:
                _same(moment, self.arrays[moment.name])


_PLAN = {
    "batch_size?": int, "lr?": float, "schedule?": str, "warmup?": int, "accumulate?": int, "patience?": (int, None),
    "save_every?": (int, None), "seed?": int,
}  # fmt: skip
# More than anybody takes; the numbers that are made of it stay within 64 bits.
_STEPS = 1 << 40
_PROGRESS = {
    "epoch?": int, "batch?": int, "epoch_loss?": float, "epoch_steps?": int, "best?": (float, None), "waited?": int,
    "history?": [{str: float}], "losses?": [float], "plan?": _PLAN,
}  # fmt: skip
_ABOUT = {"trainable": {str: bool}, "step": int, "properties": {str: (int, float, str)}, "progress": _PROGRESS}


def _said(about: Mapping[str, str], path: Path) -> dict[str, Any]:
    """What the checkpoint's own words say, or an error that names the one that is off."""
    try:
        said = {name: json.loads(about[name]) for name in _ABOUT}
        wrong = misfit(said, _ABOUT) or ("" if 0 <= said["step"] < _STEPS else "step is no number of steps")
        progress = said["progress"] if not wrong else {}
        strange = sorted(set(progress) - {name.removesuffix("?") for name in _PROGRESS})
        wrong = wrong or (f"progress.{strange[0]} is unknown" if strange else "")
        if any(progress.get(name, 0) < 0 for name in ("epoch", "batch", "epoch_steps", "waited")):
            wrong = "progress goes backwards"
    except (ValueError, KeyError, RecursionError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        raise InputError(f"{path} is a damaged checkpoint: {wrong}", hint="use an earlier checkpoint")
    return said


def _is_moment(name: str, parameters: Mapping[str, bool]) -> bool:
    return name not in parameters and name.rpartition(".")[0] in parameters


def _same(tensor: Tensor, found: Array | None) -> None:
    if found is None:
        raise _another(f"it has no '{tensor.name}'")
    if found.shape != tensor.sizes or str(found.dtype) != tensor.dtype:
        raise _another(
            f"its '{tensor.name}' is {found.dtype}{list(found.shape)}, not {tensor.dtype}{list(tensor.shape)}"
        )


def _another(what: str) -> InputError:
    return InputError(
        f"the checkpoint belongs to another model: {what}", hint="use the checkpoint made with these artifacts"
    )


def _fill(target: Array, value: Array, name: str) -> None:
    given = np.asarray(value)
    if given.shape != target.shape:
        raise BadData(f"'{name}' has the shape {list(target.shape)}, not {list(given.shape)}", hint="reshape the array")
    target[...] = given
