"""What a model takes and gives, as the protocol sees it: checks names, datatypes and shapes, and names what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sardonyx.errors import RuntimeRefused
from sardonyx.serve.empty import Empties
from sardonyx.serve.refusal import bad
from sardonyx.serve.tensors import DATATYPES
from sardonyx.signature import Dim, Signature, TensorSpec, dims


@dataclass(frozen=True, slots=True)
class Given:
    """One input of a request, without its values."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class Terms:
    """The signature in the protocol's words. `batchable` says whether rows of several requests can share one run."""

    def __init__(self, signature: Signature, *, elements: int, strings: int = 1 << 20) -> None:
        self.inputs = {spec.name: spec for spec in signature.inputs}
        self.outputs = {spec.name: spec for spec in signature.outputs}
        self.datatypes = {spec.name: _datatype(spec) for spec in (*signature.inputs, *signature.outputs)}
        self.output_names = tuple(self.outputs)
        self.batchable = _batchable(signature)
        self._elements, self._strings = elements, strings
        # Which dynamic sizes may be 0, where that was tried.
        self.empties: Empties | None = None

    def check(self, given: Sequence[Given]) -> int:
        """The rows of a request whose inputs fit, 0 for one that must run alone, or a refusal that names the input."""
        sizes: dict[str, tuple[int, str]] = {}
        seen: set[str] = set()
        rows, empty = -1, False
        for tensor in given:
            spec = self.inputs.get(tensor.name)
            if spec is None:
                raise bad(f"input {tensor.name}: the model has no such input; it takes {self.describe()}")
            if tensor.name in seen:
                raise bad(f"input {tensor.name}: given twice")
            seen.add(tensor.name)
            self._check_one(spec, tensor, sizes)
            if 0 in tensor.shape:
                empty = True
            if self.batchable:
                rows = tensor.shape[0] if rows in (-1, tensor.shape[0]) else 0
        for name in self.inputs:
            if name not in seen:
                raise bad(f"input {name}: missing; the model takes {self.describe()}")
        if empty and self.empties is not None:
            self.empties.check({tensor.name: tensor.shape for tensor in given})
        return max(rows, 0)

    def chosen(self, names: Sequence[str]) -> tuple[str, ...]:
        """The outputs asked for; all of them where none is named."""
        for name in names:
            if name not in self.outputs:
                raise bad(f"output {name}: the model has no such output; it gives {', '.join(self.outputs)}")
        if len(set(names)) < len(names):
            raise bad("an output is asked for twice")
        return tuple(names) or self.output_names

    def describe(self) -> str:
        return ", ".join(f"{name} {self.datatypes[name]}{_dims(spec)}" for name, spec in self.inputs.items())

    def metadata(self, specs: Iterable[TensorSpec]) -> list[dict[str, Any]]:
        """Name, datatype and shape of each tensor; a dynamic size is -1."""
        return [
            {"name": spec.name, "datatype": self.datatypes[spec.name], "shape": sizes_of(spec.shape)} for spec in specs
        ]

    def _check_one(self, spec: TensorSpec, tensor: Given, sizes: dict[str, tuple[int, str]]) -> None:
        if tensor.datatype != self.datatypes[spec.name]:
            raise bad(f"input {spec.name}: datatype {tensor.datatype}, the model takes {self.datatypes[spec.name]}")
        product = 1
        for size in tensor.shape:
            if size < 0:
                raise bad(f"input {spec.name}: shape {dims(tensor.shape)} has a negative size")
            product *= max(size, 1)  # a size of 0 must not hide the others: outputs may have those alone
        most = self._strings if tensor.datatype == "BYTES" else self._elements
        if product > most:
            raise bad(f"input {spec.name}: shape {dims(tensor.shape)} is above the limit of {most} values")
        if spec.shape is not None:
            _check_shape(spec, spec.shape, tensor.shape, sizes)


def sizes_of(shape: tuple[Dim, ...] | None) -> list[int]:
    """A shape with -1 where a size is dynamic."""
    return [size if isinstance(size, int) else -1 for size in shape or ()]


def _check_shape(
    spec: TensorSpec, wanted: tuple[Dim, ...], shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]
) -> None:
    if len(shape) != len(wanted):
        raise bad(f"input {spec.name}: shape {dims(shape)}, the model takes {dims(wanted)}")
    for size, dim in zip(shape, wanted, strict=True):
        if isinstance(dim, int):
            if size != dim:
                raise bad(f"input {spec.name}: shape {dims(shape)}, the model takes {dims(wanted)}")
        elif dim:
            first, other = sizes.setdefault(dim, (size, spec.name))
            if first != size:
                raise bad(f"input {spec.name}: {dim} is {size} here and {first} in {other}")


def _batchable(signature: Signature) -> bool:
    """Whether every tensor has one dynamic first dimension. That its rows do not mix is for the warm-up to find out."""
    firsts = [spec.shape[0] if spec.shape else 1 for spec in signature.inputs]
    names = {first for first in firsts if isinstance(first, str)}
    free = all(not isinstance(first, int) for first in firsts) and bool(firsts) and len(names) <= 1
    return free and all(spec.shape and not isinstance(spec.shape[0], int) for spec in signature.outputs)


def _datatype(spec: TensorSpec) -> str:
    if spec.dtype not in DATATYPES:
        raise RuntimeRefused(
            f"{spec}: the Open Inference Protocol has no such type", hint="put a Cast at that end of the model"
        )
    return DATATYPES[spec.dtype]


def _dims(spec: TensorSpec) -> str:
    return "" if spec.shape is None else dims(spec.shape)
