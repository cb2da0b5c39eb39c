"""What a step will take, told from its graph before it runs: memory by what is alive at once, and multiply-accumulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sardonyx.inspect.summary import dissect
from sardonyx.model import Model
from sardonyx.training.feeding import signature
from sardonyx.training.manifest import Manifest

# What a session of onnxruntime 1.31 took beyond the arrays, read off graphs of 100 to 1,500 nodes.
_SESSION, _NODE = 12 << 20, 12 << 10


@dataclass(frozen=True)
class Forecast:
    """The memory of a step in bytes, and its multiply-accumulates, for one batch.

    `state` are parameters, statistics and moments. `working` is everything that the step computes and is alive at once,
    gradients and the next parameters included. `session` is what onnxruntime keeps for the graph itself. `per_example` is
    what a larger batch adds. `unsized` values are left out.
    """

    batch: int
    state: int
    working: int
    session: int
    per_example: int
    macs: int
    unsized: int

    @property
    def memory(self) -> int:
        """What the process grows by."""
        return self.state + self.working + self.session

    def at(self, batch: int) -> int:
        """The memory with another batch: what does not depend on it stays."""
        return max(self.state + self.session, self.memory + (batch - self.batch) * self.per_example)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "memory": self.memory}


def foresee(step: Model, manifest: Manifest, batch: int) -> Forecast:
    """The forecast of a step graph, or of a training graph, on a batch of this size."""
    one, two = (dissect(step, sizes_for(manifest, count)) for count in (batch, 2 * batch))
    state = sum(tensor.elements * _width(tensor.dtype) for tensor in manifest.state)
    grows = (two.memory.peak - one.memory.peak) // batch
    session = _SESSION + _NODE * len(step.ir.graph)
    return Forecast(batch, state, one.memory.peak, session, max(0, grows), one.costs.total, one.memory.unsized)


def sizes_for(manifest: Manifest, batch: int) -> Mapping[str, int]:
    """The size of the batch by the names that the graph has for it."""
    found: dict[str, int] = {}
    for spec in signature(manifest).inputs:
        first = spec.shape[0] if spec.shape else 1
        if not isinstance(first, int):
            found[first or f"{spec.name}.0"] = batch
    return found


def _width(dtype: str) -> int:
    return np.dtype(dtype).itemsize
