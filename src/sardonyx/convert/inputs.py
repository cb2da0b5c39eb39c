"""What to convert with: the inputs asked for, the example given, and what the framework says, settled into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from sardonyx.convert.example import example_of
from sardonyx.errors import UsageError
from sardonyx.signature import Arrays, Signature, TensorSpec

# One example of two hides a dimension that was baked in as one; two is also what a traced batch would be.
BATCH = 2


@dataclass(frozen=True)
class Inputs:
    """The inputs of the export: their specs, in which a named dimension is dynamic, and example values."""

    signature: Signature
    example: Arrays

    @property
    def dynamic(self) -> dict[str, dict[str, str]]:
        """Input -> axis -> name, for the dimensions that must stay open."""
        found = {
            spec.name: {str(axis): dim for axis, dim in enumerate(spec.shape or ()) if isinstance(dim, str)}
            for spec in self.signature.inputs
        }
        return {name: axes for name, axes in found.items() if axes}


def settle(specs: Sequence[str], example: Any, description: Mapping[str, Any], *, seed: int = 0) -> Inputs:
    """The inputs, from the most explicit word there is: specs, then example values, then the framework's own account."""
    given = _example(example, specs, description)
    if specs:
        signature = Signature.parse(specs)
    elif given is not None:
        signature = _merge(given, _described(description), _accepted(description))
    else:
        signature = Signature(tuple(_named_dims(spec) for spec in _described(description)))
    unknown = [spec.name for spec in signature.inputs if spec.shape is None]
    if not signature.inputs or (unknown and given is None):
        raise UsageError(
            f"the shape of {', '.join(unknown) or 'the inputs'} is not known",
            hint=f"say it: --input {unknown[0] if unknown else 'x'}=float32[batch,3,224,224], or give --example values.npz",
        )
    if given is None:
        sizes = {
            str(spec.shape[0]): BATCH for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)
        }
        return Inputs(signature, _plausible(signature, description) or signature.sample(seed=seed, sizes=sizes))
    return Inputs(signature, signature.fit(given))


def with_state(inputs: Inputs, state: Sequence[Mapping[str, Any]]) -> Inputs:
    """The inputs, and after them the state of the model as it is before the first call."""
    specs = [TensorSpec(item["name"], item["dtype"], tuple(item["shape"])) for item in state]
    values = {item["name"]: np.array(item["value"], item["dtype"]).reshape(item["shape"]) for item in state}
    return Inputs(Signature((*inputs.signature.inputs, *specs)), {**inputs.example, **values})


def _plausible(signature: Signature, description: Mapping[str, Any]) -> Arrays | None:
    """The example that the framework itself gives and accepts, in the types of the signature; None where it has none."""
    rows = description.get("example") or {}
    if set(rows) != set(signature.input_names):
        return None
    given = {spec.name: np.array(rows[spec.name], spec.numpy_dtype) for spec in signature.inputs}
    sizes = {spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], int)}
    if len(sizes) == 1:  # a batch of a fixed size
        given = {name: np.resize(array, (next(iter(sizes)), *array.shape[1:])) for name, array in given.items()}
    fitted, problems = signature.try_fit(given)
    return None if problems else fitted


def _accepted(description: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Input -> the types that the framework takes as they are, where it takes several."""
    return {item["name"]: item["dtypes"] for item in description.get("inputs", ()) if item.get("dtypes")}


def _example(example: Any, specs: Sequence[str], description: Mapping[str, Any]) -> Arrays | None:
    """The example by input, named by the specs, else by what the framework says; see example.py."""
    if example is None:
        return None
    known = Signature.parse(specs).inputs if specs else _described(description)
    columns = description.get("columns") or ()
    return example_of(example, known, () if specs else description.get("optional") or (), columns=columns)


def _described(description: Mapping[str, Any]) -> list[TensorSpec]:
    return [
        TensorSpec(
            item["name"], item.get("dtype") or "float32", None if item.get("shape") is None else tuple(item["shape"])
        )
        for item in description.get("inputs", ())
    ]


def _merge(
    given: Arrays, described: Sequence[TensorSpec], accepted: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Signature:
    """The example's names, types and sizes; a dimension is dynamic where the framework says that it is.

    A type that the framework says is its own is kept, unless the example has another that it accepts as well: an estimator
    answers float64 and float32 each in its own way.
    """
    known = {spec.name: spec for spec in described}
    specs = []
    for name, array in given.items():
        spec = known.get(name)
        shape: tuple[int | str | None, ...] = array.shape
        dtype = str(array.dtype) if array.dtype.kind not in "OUS" else "string"
        if spec is not None and spec.shape is not None and len(spec.shape) == array.ndim:
            named = _named_dims(spec).shape or ()
            shape = tuple(dim if isinstance(dim, str) else size for dim, size in zip(named, array.shape, strict=True))
        own = spec is not None and spec.shape is not None and dtype not in accepted.get(name, ())
        specs.append(TensorSpec(name, spec.dtype if spec is not None and own else dtype, shape))
    return Signature(tuple(specs))


def _named_dims(spec: TensorSpec) -> TensorSpec:
    """The spec with a name for every dynamic dimension: the first is the batch."""
    if spec.shape is None:
        return spec
    names = ("batch" if axis == 0 else f"{spec.name}_{axis}" for axis in range(len(spec.shape)))
    return TensorSpec(
        spec.name, spec.dtype, tuple(name if dim is None else dim for dim, name in zip(spec.shape, names, strict=True))
    )
