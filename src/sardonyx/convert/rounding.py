"""How far rounding alone moves the original's own answers, and an export's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sardonyx.compare import noise
from sardonyx.compare.noise import Method, Noise
from sardonyx.convert.probes import Probe
from sardonyx.model import Model
from sardonyx.signature import Array, Arrays, Signature
from sardonyx.sources import Original, Outputs


class Rounding:
    """The original's own rounding. Measured on one probe; on another only when a verdict may depend on it.

    Where the framework cannot answer in float64, it is asked again with the rows doubled, which sums in another order.
    """

    def __init__(
        self, original: Original, signature: Signature, probes: Sequence[Probe], answers: Sequence[Outputs]
    ) -> None:
        self._original = original
        self._signature = signature
        self._probes = probes
        self._answers = [answer.arrays for answer in answers]
        self._twins: list[list[Sequence[Any]]] = [[] for _ in probes]
        self._left = list(range(len(probes)))
        self._method: Method = "float64"
        first = self._first()
        self.look([first])
        if not self._twins[first]:
            self._method, self._left = "repeats", list(range(len(probes)))
            self.look([0])

    def _first(self) -> int:
        """The probe with the least input of those whose answers are enough to measure on: float64 is slow."""
        sizes = [sum(array.size for array in probe.arrays.values()) for probe in self._probes]
        enough = [n for n, answer in enumerate(self._answers) if min(map(np.size, answer), default=0) >= noise.ENOUGH]
        return min(enough, key=sizes.__getitem__, default=0)

    @property
    def whole(self) -> bool:
        """Whether it shows all rounding there is: that takes answers in float64."""
        return self._method == "float64"

    @property
    def floor(self) -> Noise:
        """The rounding known so far; a probe that was not looked at has that of the others, scaled to its answer."""
        return noise.settle(self._method, self._answers, self._twins)

    @property
    def low(self) -> Noise:
        """The same with low guesses, to find out which probes to look at."""
        return noise.settle(self._method, self._answers, self._twins, guess="low")

    def look(self, indices: Iterable[int]) -> bool:
        """Measures these probes, and says whether any of them had not been measured before."""
        fresh = [index for index in indices if index in self._left]
        if fresh:
            self._left = [index for index in self._left if index not in fresh]
            for index, twins in zip(
                fresh, self._ask([self._probes[index].arrays for index in fresh], fresh), strict=True
            ):
                self._twins[index] = twins
        return bool(fresh)

    def look_everywhere(self) -> bool:
        return self.look(self._left)

    def _ask(self, batches: Sequence[Arrays], indices: Sequence[int]) -> list[list[Sequence[Any]]]:
        if self._method == "float64":
            exact = self._original.predict(batches, double=True)
            return [[item.arrays] if isinstance(item, Outputs) else [] for item in exact]
        again = self._original.predict([_doubled(self._signature, batch) for batch in batches])
        return [
            [_first_half(item.arrays, self._answers[index])] if isinstance(item, Outputs) else []
            for item, index in zip(again, indices, strict=True)
        ]


def of_export(model: Model, probes: Sequence[Probe], answers: Sequence[Outputs], expected: Sequence[Outputs]) -> Noise:
    """The export's own rounding, looked at where its answers differ from those expected."""
    edges = [index for index, probe in enumerate(probes) if probe.on_edge]
    return noise.measure(
        model, [probe.arrays for probe in probes], [answer.arrays for answer in answers],
        others=[answer.arrays for answer in expected], leave=edges,
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
