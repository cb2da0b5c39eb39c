"""How good a state is: the loss and, for classes, the share of right answers, over all of the data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sardonyx.errors import BrokenModel
from sardonyx.run.session import DEFAULTS, Settings
from sardonyx.signature import Array
from sardonyx.training.batches import Data
from sardonyx.training.bound import Bound, one_number
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.manifest import Label, Manifest


class Judge:
    """Runs the evaluation graph on the present parameters of a state."""

    def __init__(
        self, folder: Path, manifest: Manifest, state: CheckpointState, *, settings: Settings = DEFAULTS
    ) -> None:
        held = dict.fromkeys((tensor.name for tensor in (*manifest.parameters, *manifest.buffers)), "")
        self._bound = Bound(manifest.graph(folder, "evaluation"), state.arrays, held, settings=settings)
        self._manifest = manifest
        if manifest.loss not in self._bound.outputs:
            raise BrokenModel(f"{folder}: the evaluation graph has no loss '{manifest.loss}'", hint="prepare it again")

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
        found = {"loss": one_number(outputs[self._manifest.loss])}
        for label in self._manifest.labels:
            scores = outputs.get(self._manifest.outputs[0].name) if self._manifest.outputs else None
            if label.classes is not None and scores is not None:
                found["accuracy"] = _accuracy(scores, batch[label.name], label)
        return found


def _accuracy(scores: Array, labels: Array, label: Label) -> float:
    if scores.ndim < 2 or (len(scores), *scores.shape[2:]) != labels.shape:
        raise BrokenModel(
            f"scores of {list(scores.shape)} do not belong to labels of {list(labels.shape)}", hint="prepare it again"
        )
    right = scores.argmax(axis=1) == labels
    counted = np.ones(labels.shape, bool) if label.ignored is None else labels != label.ignored
    return float(right[counted].mean()) if counted.any() else 1.0
