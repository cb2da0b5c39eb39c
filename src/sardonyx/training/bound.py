"""A session whose parameters stay in place: inputs and outputs are bound to the arrays of the state, and nothing is copied."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from sardonyx.errors import BrokenModel, RuntimeRefused
from sardonyx.run.session import DEFAULTS, Settings, options, plain, provider_name
from sardonyx.signature import Array, Arrays

_AGAIN = "prepare the artifacts again"
# onnxruntime's names of types: of what a state holds, and of what a loss has.
_TYPES = {
    "float16": "tensor(float16)", "float32": "tensor(float)", "float64": "tensor(double)", "bool": "tensor(bool)",
    **{name: f"tensor({name})" for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip
_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64}


class Bound:
    """`bound.run(feeds)` runs the graph on the arrays of the state, and gives the other outputs.

    `kept`: state input -> the output that holds its next value ('' for none). A name in `alternating` has two arrays that
    take turns, because the graph may still read the old value when it writes the new one; others are written in place.
    """

    def __init__(
        self,
        path: str | Path,
        arrays: Arrays,
        kept: Mapping[str, str],
        *,
        alternating: Collection[str] = (),
        settings: Settings = DEFAULTS,
        session_options: ort.SessionOptions | None = None,
    ) -> None:
        self._session = _open(Path(path), settings, session_options)
        self._arrays = arrays
        taken = {value.name for value in self._session.get_inputs()}
        self._kept = {name: output for name, output in kept.items() if name in taken}
        self._must_fit(path)
        self._spare = {name: np.empty_like(arrays[name]) for name in self._kept if name in alternating}
        written = set(self._kept.values())
        others = [value for value in self._session.get_outputs() if value.name not in written]
        self.outputs = [value.name for value in others]
        # A loss is one number, and has a place of its own: asking the runtime for it took a tenth of a small network's step.
        self._numbers = {
            value.name: np.empty(value.shape, _FLOATS[value.type])
            for value in others
            if value.type in _FLOATS and value.shape in ([], [1])
        }
        self._asked = [name for name in self.outputs if name not in self._numbers]
        self._bindings: dict[tuple[int, ...], Any] = {}
        self._fed: dict[tuple[int, ...], dict[str, Array]] = {}
        self._alive: list[Any] = []

    def _must_fit(self, path: str | Path) -> None:
        """Every array that the runtime reads or writes in place has the type that the graph says it has."""
        types = {value.name: value.type for value in (*self._session.get_inputs(), *self._session.get_outputs())}
        for name, output in self._kept.items():
            if name not in self._arrays:
                raise BrokenModel(f"{path}: there is no array for its input '{name}'", hint=_AGAIN)
            for value in filter(None, (name, output)):
                if types.get(value) != _TYPES.get(str(self._arrays[name].dtype)):
                    raise BrokenModel(
                        f"{path}: its '{value}' is {types.get(value, 'not there')}, not {self._arrays[name].dtype}",
                        hint=_AGAIN,
                    )

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs that are no part of the state, in the graph's order."""
        key = tuple(id(self._arrays[name]) for name in self._kept)
        binding = self._bindings.get(key) or self._bind(key)
        held = {name: np.asarray(array, order="C") for name, array in feeds.items()}
        bound = self._fed.pop(key, {})  # known again only when all of these are bound
        try:
            for name, array in held.items():
                if bound.get(name) is not array:
                    binding.bind_cpu_input(name, array)
            self._fed[key] = held
            for name in self._asked:
                binding.bind_output(name)
            self._session.run_with_iobinding(binding)
        except Exception as error:
            raise RuntimeRefused(
                f"the step failed: {plain(error)}", hint="check the shapes and the class numbers of the batch"
            ) from error
        for name, spare in self._spare.items():
            self._spare[name], self._arrays[name] = self._arrays[name], spare
        found = {name: array.copy() for name, array in self._numbers.items()}
        if self._asked:
            given = binding.get_outputs()[-len(self._asked) :]
            found |= {name: value.numpy() for name, value in zip(self._asked, given, strict=True)}
        return [found[name] for name in self.outputs]

    def _bind(self, key: tuple[int, ...]) -> Any:
        binding = self._session.io_binding()
        for name, output in self._kept.items():
            binding.bind_ortvalue_input(name, self._value(self._arrays[name]))
            if output:
                binding.bind_ortvalue_output(output, self._value(self._spare.get(name, self._arrays[name])))
        for name, array in self._numbers.items():
            binding.bind_ortvalue_output(name, self._value(array))
        if len(self._bindings) > 8:  # arrays were replaced again and again
            self._bindings.clear()
            self._fed.clear()
        self._bindings[key] = binding
        return binding

    def _value(self, array: Array) -> Any:
        """An OrtValue that shares the array's memory, and with it the array, which must not go before it."""
        value = ort.OrtValue.ortvalue_from_numpy(array)
        self._alive.append((array, value))
        return value


def _open(path: Path, settings: Settings, chosen: ort.SessionOptions | None) -> ort.InferenceSession:
    if chosen is None:
        chosen = options(settings)
        # A plan of the memory for each shape of a batch comes on top of what the arena holds: twice the memory, no faster.
        chosen.enable_mem_pattern = False
    try:
        return ort.InferenceSession(os.fspath(path), chosen, providers=[provider_name(settings.provider)])
    except Exception as error:
        raise RuntimeRefused(
            f"onnxruntime does not load {path}: {plain(error)}", hint=f"sardonyx check {path}"
        ) from error


def one_number(output: Array) -> float:
    """The number that a loss is."""
    if output.size != 1 or output.dtype.kind not in "fiu":
        raise BrokenModel(f"the loss is {output.dtype}{list(output.shape)}, not one number", hint=_AGAIN)
    return float(output.reshape(()))


def kept_outputs(tensors: Sequence[Any]) -> dict[str, str]:
    return {tensor.name: tensor.output for tensor in tensors}
