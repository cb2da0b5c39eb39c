"""The inputs that every variant gets: the same values for all, from the data or generated, at one batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.bench.variants._variant import Variant
from sardonyx.errors import BadData, InputError, UsageError
from sardonyx.samples import Samples
from sardonyx.signature import Array, Arrays, Signature, TensorSpec

_FLOATS = ("float16", "float32", "float64")


def signature_of(variants: Mapping[str, Variant], specs: Sequence[str]) -> Signature:
    """What to generate: the inputs asked for, else those of the first ONNX model, else those of the first that says."""
    if specs:
        return Signature.parse(specs)
    known = [variant for variant in variants.values() if variant.signature is not None]
    known.sort(key=lambda variant: variant.onnx is None)
    if not known or known[0].signature is None:
        raise UsageError(
            "none of the variants says which inputs it takes",
            hint="say it: --input x=float32[batch,3,224,224], or measure it beside an ONNX model",
        )
    return known[0].signature


def make_inputs(
    signature: Signature, *, batch: int | None, data: Any = None, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> Arrays:
    """One batch: the first of the data, or a generated one."""
    if batch is not None and batch < 1:
        raise UsageError(f"a batch cannot hold {batch} examples", hint="give 1 or more")
    _refuse_fixed(signature, batch)
    if data is None:
        firsts = {
            _first(spec): batch or 1 for spec in signature.inputs if spec.shape and not isinstance(spec.shape[0], int)
        }
        return signature.sample(seed=seed, sizes={**firsts, **(sizes or {})} if batch else sizes)
    found = next(iter(Samples.open(data, signature, batch=batch or 1))).inputs
    if batch is not None and examples(found) < batch:
        raise BadData(
            f"the data holds {examples(found)} examples, fewer than a batch of {batch}",
            hint="give more, or a smaller --batch",
        )
    return found


def examples(inputs: Arrays) -> int:
    """How many examples one call answers: the first dimension of the first input that has one."""
    return next((array.shape[0] for array in inputs.values() if array.ndim), 1)


def fitted(name: str, signature: Signature | None, inputs: Arrays) -> Arrays:
    """The inputs as this variant takes them: by name, else in order; floats in its own width."""
    if signature is None:
        return inputs
    names = signature.input_names
    if set(names) != set(inputs):
        if len(names) != len(inputs):
            raise InputError(
                f"the inputs differ between the variants: {name} takes {signature.describe()}, "
                f"and the others {', '.join(inputs)}",
                hint="measure models that take the same inputs",
            )
        inputs = dict(zip(names, inputs.values(), strict=True))
    converted = {spec.name: _converted(spec, inputs[spec.name]) for spec in signature.inputs}
    found, problems = signature.try_fit(converted)
    if problems:
        lines = "\n  ".join(problems)
        raise InputError(
            f"the inputs of the other variants do not go into {name}:\n  {lines}",
            hint=f"it takes {signature.describe()}; measure models that take the same inputs, or give --size or --data",
        )
    return found


def _converted(spec: TensorSpec, array: Array) -> Array:
    if spec.dtype in _FLOATS and str(array.dtype) in _FLOATS:
        return array.astype(spec.numpy_dtype, copy=False)
    return array


def _first(spec: TensorSpec) -> str:
    assert spec.shape, "asked only of inputs with a first dimension"
    return str(spec.shape[0] or f"{spec.name}.0")


def _refuse_fixed(signature: Signature, batch: int | None) -> None:
    fixed = {spec.name: spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], int)}
    if batch is None or len(fixed) < sum(bool(spec.shape) for spec in signature.inputs):
        return
    sizes = set(fixed.values())
    if fixed and batch not in sizes:
        raise UsageError(
            f"the batch is fixed at {', '.join(map(str, sorted(sizes)))} in {signature.describe()}, so it cannot be {batch}",
            hint="leave --batch out, or convert the model with a dynamic batch: --input x=float32[batch,...]",
        )
