"""How good a state is: the loss and, for classes, the share of right answers, over all of the data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sardonyx.run.session import DEFAULTS, Settings
from sardonyx.signature import Array
from sardonyx.training.batches import Data
from sardonyx.training.bound import Bound
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.manifest import Label, Manifest


class Judge:
    """Runs the evaluation graph on the present parameters of a state."""

    def __init__(
        self, folder: Path, manifest: Manifest, state: CheckpointState, *, settings: Settings = DEFAULTS
    ) -> None:
        held = dict.fromkeys((tensor.name for tensor in (*manifest.parameters, *manifest.buffers)), "")
        self._bound = Bound(folder / manifest.files["evaluation"], state.arrays, held, settings=settings)
        self._manifest = manifest

    def metrics(self, data: Data) -> dict[str, float]:
        """The mean of every metric, each example counting once."""
        totals: dict[str, float] = {}
        examples = 0
        for batch in data.epoch():
            outputs = dict(zip(self._bound.outputs, self._bound.run(batch), strict=True))
            size = len(next(iter(batch.values())))
            for name, value in self._measured(outputs, batch).items():
                totals[name] = totals.get(name, 0.0) + value * size
            examples += size
        return {name: total / examples for name, total in totals.items()}

    def _measured(self, outputs: Mapping[str, Array], batch: Mapping[str, Array]) -> dict[str, float]:
        found = {"loss": float(outputs[self._manifest.loss])}
        for label in self._manifest.labels:
            first = self._manifest.outputs[0].name
            if label.classes is not None and first in outputs:
                found["accuracy"] = _accuracy(outputs[first], batch[label.name], label)
        return found


def _accuracy(scores: Array, labels: Array, label: Label) -> float:
    right = scores.argmax(axis=1) == labels
    counted = np.ones(labels.shape, bool) if label.ignored is None else labels != label.ignored
    return float(right[counted].mean()) if counted.any() else 1.0
