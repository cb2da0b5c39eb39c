"""One step of training: forward, backward and update in one graph, or accumulated over several batches in two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from sardonyx.errors import BrokenModel, UsageError
from sardonyx.run.session import DEFAULTS, Settings
from sardonyx.signature import Arrays
from sardonyx.training.api import Module, Optimizer
from sardonyx.training.bound import Bound, kept_outputs, one_number
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.manifest import Manifest
from sardonyx.training.optimizers import OPTIMIZERS


class Stepper(Protocol):
    """Learns from batches: moves the parameters once and gives the mean loss."""

    def step(self, batches: Sequence[Arrays], rate: float) -> float: ...


class FusedStep:
    """A step is one run of `step_model.onnx`, on one batch."""

    def __init__(
        self, folder: Path, manifest: Manifest, state: CheckpointState, *, seed: int = 0, settings: Settings = DEFAULTS
    ) -> None:
        if "step" not in manifest.files:
            raise UsageError(f"{folder} has no optimizer", hint="prepare it again with --optimizer")
        state.check(manifest)
        state.add_moments(manifest)
        # Parameters are read by the backward pass while their next values are written.
        alternating = [tensor.name for tensor in (*manifest.trainable, *manifest.buffers)]
        if manifest.optimizer not in OPTIMIZERS:
            raise BrokenModel(f"{folder} has an unknown optimizer '{manifest.optimizer}'", hint="prepare it again")
        if OPTIMIZERS[manifest.optimizer].rereads:
            alternating += [moment.name for moment in manifest.moments]
        kept = kept_outputs(manifest.state)
        self._bound = Bound(
            manifest.graph(folder, "step"), state.arrays, kept, settings=settings,
            alternating=[name for name in alternating if kept[name]],
        )  # fmt: skip
        if not self._bound.outputs:
            raise BrokenModel(f"{folder}: the graph of a step gives no loss", hint="prepare it again")
        self._state, self._seed = state, seed
        self._rate, self._number, self._mask = np.zeros((), np.float32), np.zeros((), np.int64), np.zeros((), np.int64)
        self._numbers: Arrays = {manifest.learning_rate: self._rate, manifest.step: self._number}
        if manifest.seed is not None:
            self._numbers[manifest.seed] = self._mask

    def step(self, batches: Sequence[Arrays], rate: float) -> float:
        (batch,) = batches
        number = self._state.step + 1
        self._rate[...], self._number[...], self._mask[...] = rate, number, self._seed + number
        loss = one_number(self._bound.run({**batch, **self._numbers})[0])
        self._state.step = number
        return loss


class AccumulatedStep:
    """A step adds up the gradients of several batches in `training_model.onnx` and then runs `optimizer_model.onnx`."""

    def __init__(
        self, folder: Path, manifest: Manifest, state: CheckpointState, *, seed: int = 0, settings: Settings = DEFAULTS
    ) -> None:
        if "optimizer" not in manifest.files:
            raise UsageError(f"{folder} has no optimizer", hint="prepare it again with --optimizer")
        self._module = Module(manifest.graph(folder, "training"), state, settings=settings)
        self._optimizer = Optimizer(manifest.graph(folder, "optimizer"), self._module, settings=settings)
        self._names = self._module.input_names()
        self._state, self._seed = state, seed

    def step(self, batches: Sequence[Arrays], rate: float) -> float:
        self._module.lazy_reset_grad()
        losses = []
        for index, batch in enumerate(batches):
            # Each batch of each step has its own mask, whenever the run was resumed.
            self._module.seed = self._seed + (self._state.step + 1) * 65_537 + index - self._module.calls
            found = self._module(*(batch[name] for name in self._names))
            losses.append(one_number(np.asarray(found[0] if isinstance(found, tuple) else found)))
        self._optimizer.set_learning_rate(rate)
        self._optimizer.step(1 / len(batches))
        return float(np.mean(losses))
