"""How far rounding alone moves the original's own answers, and an export's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.compare import noise
from sardonyx.compare.noise import Noise
from sardonyx.convert.probes import Probe
from sardonyx.model import Model
from sardonyx.signature import Array, Arrays, Signature
from sardonyx.sources import Original, Outputs

SECONDS = 20.0


def of_original(
    original: Original, signature: Signature, probes: Sequence[Probe], answers: Sequence[Outputs]
) -> tuple[Noise, bool]:
    """The original's rounding, and whether it is the whole of it: that takes its answers in float64.

    Where the framework cannot give those, every probe is asked again with its rows doubled, which sums in another order.
    """
    given = [answer.arrays for answer in answers]
    exact = original.predict([probe.arrays for probe in probes], double=True)
    twins = [[item.arrays] if isinstance(item, Outputs) else [] for item in exact]
    if twins and twins[0]:
        return noise.settle("float64", given, twins), True
    again = original.predict([_doubled(signature, probe.arrays) for probe in probes])
    halves = [
        [_first_half(item.arrays, answer)] if isinstance(item, Outputs) else []
        for item, answer in zip(again, given, strict=True)
    ]
    return noise.settle("repeats", given, halves), False


def of_export(model: Model, probes: Sequence[Probe], answers: Sequence[Outputs], expected: Sequence[Outputs]) -> Noise:
    """The export's own rounding, looked at where its answers differ from those expected."""
    edges = [index for index, probe in enumerate(probes) if probe.on_edge]
    return noise.measure(
        model, [probe.arrays for probe in probes], [answer.arrays for answer in answers],
        others=[answer.arrays for answer in expected], leave=edges, seconds=SECONDS,
    )  # fmt: skip


def _doubled(signature: Signature, arrays: Arrays) -> Arrays:
    """The inputs with every row twice, where the batch is open."""
    batch = next((spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)), None)
    return {spec.name: _twice(spec.shape, arrays[spec.name], batch) for spec in signature.inputs}


def _twice(shape: tuple[Any, ...] | None, array: Array, batch: object) -> Array:
    axes = [axis for axis, dim in enumerate(shape or ()) if batch is not None and dim == batch]
    return np.concatenate([array, array], axis=axes[0]) if axes else array


def _first_half(doubled: Sequence[Array], answer: Sequence[Array]) -> list[Array]:
    """The rows that were there before; an output without rows is taken as it is."""
    return [
        big[: len(small)] if big.ndim and small.ndim and len(big) == 2 * len(small) else big
        for big, small in zip(doubled, answer, strict=False)
    ]
