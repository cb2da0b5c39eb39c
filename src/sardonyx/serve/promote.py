"""Whether a model that was loaded anew may take the place of the old one: by golden cases and by the answers to real requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sardonyx.agreement import Tolerance, judge
from sardonyx.errors import BrokenModel
from sardonyx.serve.engine import Served
from sardonyx.signature import Array

GOLDEN = "golden.safetensors"
# Golden outputs may come from another machine, whose kernels add up in another order.
_GOLDEN_TOLERANCE = 1e-3
_GENERATED = 4


def must_be_good(new: Served, old: Served | None, tolerance: float | None) -> None:
    """Raises `BrokenModel` where the new model breaks its golden cases, or answers otherwise than the old one.

    The old one's latest requests are asked again, or generated ones where there were none. Without a `tolerance`, which is
    a share of an output's largest value, a model that answers otherwise is taken for an improvement.
    """
    for inputs, expected in _golden(new):
        _same(new, inputs, expected, tolerance or _GOLDEN_TOLERANCE, "its golden case")
    if old is None or tolerance is None:
        return
    if old.metadata["inputs"] != new.metadata["inputs"] or old.metadata["outputs"] != new.metadata["outputs"]:
        raise BrokenModel(
            f"{new.path} takes or gives other tensors than the model it replaces", hint="give it a new name"
        )
    for inputs in old.recent() or _generated(old):
        _same(new, inputs, old.run(old.terms.output_names, inputs), tolerance, "the model it replaces")


def _same(new: Served, inputs: Sequence[Array], expected: Sequence[Array], tolerance: float, what: str) -> None:
    given = new.run(new.terms.output_names, inputs)
    allowed = [Tolerance(tolerance * _largest(array), tolerance) for array in expected]
    judged = judge(expected, given, allowed, names=new.terms.output_names)
    for output in judged.outputs:
        if output.verdict == "mismatch":
            raise BrokenModel(
                f"{new.path}: output {output.name} differs from that of {what}, by {output.max_abs} at most",
                hint="look for the difference with sardonyx compare, or load it under a new name",
            )


def _largest(array: Array) -> float:
    if array.dtype.kind != "f":
        return 0.0
    return float(np.max(np.abs(array), initial=0, where=np.isfinite(array)))


def _golden(served: Served) -> Iterator[tuple[list[Array], list[Array]]]:
    """The golden cases that lie beside the model, as a bundle has them."""
    path = served.path.parent / GOLDEN
    if not path.is_file() or path.is_symlink():
        return
    from safetensors.numpy import load_file

    held = load_file(path)
    if any(spec.dtype == "string" for spec in (*served.terms.inputs.values(), *served.terms.outputs.values())):
        return  # strings lie in the file's metadata, and sardonyx verify is who replays them
    for case in sorted({name.partition("/")[0] for name in held}):
        inputs = [held.get(f"{case}/input/{name}") for name in served.terms.inputs]
        outputs = [held.get(f"{case}/output/{name}") for name in served.terms.output_names]
        if any(array is None for array in (*inputs, *outputs)):
            raise BrokenModel(f"{path} does not hold the tensors of the model", hint="ship the model again")
        yield inputs, outputs


def _generated(served: Served) -> list[list[Array]]:
    drawn = [served.signature.sample(seed=seed) for seed in range(_GENERATED)]
    return [[arrays[name] for name in served.terms.inputs] for arrays in drawn]
