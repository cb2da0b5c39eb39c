"""The artifacts that train in Python train in onnxruntime-web, in Node on WebAssembly, to the same losses and parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

import node
from halves import split
from sardonyx.run.session import Settings
from sardonyx.training import artifacts
from sardonyx.training.api import Module, Optimizer
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.graphs import Rule
from sardonyx.training.manifest import Manifest
from sardonyx.training.stepper import FusedStep
from training_models import NETWORKS, exported

pytestmark = pytest.mark.heavy
SCRIPT = Path(__file__).with_name("steps_in_node.cjs")
STEPS, RATE = 6, 0.02
ALLOWED = 1e-4


def convolutional() -> nn.Module:
    """Convolution, statistics, overlapping windows and Dropout: all that differs between runtimes where anything does."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(8, 8, 3, groups=8),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(72, 10),
    )  # fmt: skip


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], Rule]] = {
    "convolutional, sgd": (convolutional, NETWORKS["convolutional"][1], Rule("sgd", {"momentum": 0.9}, clip_norm=1.0)),
    "dense, adamw": (*NETWORKS["dense"], Rule("adamw")),
    "recurrent, sgd": (*NETWORKS["recurrent"], Rule("sgd")),
    "transformer, sgd": (*NETWORKS["transformer"], Rule("sgd", {"momentum": 0.9})),
}


@pytest.mark.parametrize("way", ["fused", "two"])
@pytest.mark.parametrize("case", split(CASES, "dense, adamw"))
def test_the_losses_and_parameters_are_pythons(tmp_path: Path, case: str, way: str) -> None:
    make, draw, rule = CASES[case]
    torch.manual_seed(0)
    batches = [(draw().numpy(), torch.randint(0, 10, (8,)).numpy()) for _ in range(STEPS)]
    manifest = artifacts.generate_artifacts(
        exported(make().train(), torch.from_numpy(batches[0][0])), loss="cross_entropy", optimizer=rule,
        artifact_directory=tmp_path,
    )  # fmt: skip
    named = {
        f"{name}.{step}": value for step, (x, y) in enumerate(batches, 1) for name, value in (("x", x), ("labels", y))
    }
    save_file(named, tmp_path / "batches")
    start = CheckpointState.load_checkpoint(tmp_path / "checkpoint").arrays
    losses, ours = _in_python(tmp_path, manifest, batches, way)
    printed = node.run(SCRIPT, tmp_path, tmp_path / "batches", tmp_path / "after", way, str(RATE))
    theirs = load_file(tmp_path / "after")
    # Sums of some hundred products in another order: a few units in the last of 24 bits, and a little more after six steps.
    np.testing.assert_allclose(json.loads(printed), losses, rtol=3e-6)
    assert set(theirs) == {each.name for each in manifest.state}
    # Adam makes whole steps of gradients that are zero but for rounding, so all parameters are judged together.
    names = [each.name for each in (*manifest.trainable, *manifest.buffers)]
    moved, away = (_length(one, ours, names) for one in (start, theirs))
    assert moved > 1e-2
    assert away < ALLOWED * moved


def _length(one: dict[str, Any], other: dict[str, Any], names: list[str]) -> float:
    return float(np.linalg.norm(np.concatenate([(one[name] - other[name]).reshape(-1) for name in names])))


def _in_python(
    folder: Path, manifest: Manifest, batches: list[tuple[Any, Any]], way: str
) -> tuple[list[float], dict[str, Any]]:
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    if way == "fused":
        stepper = FusedStep(folder, manifest, state, settings=Settings(threads=1))
        losses = [stepper.step([{"x": x, "labels": y}], RATE) for x, y in batches]
    else:
        module = Module(folder / "training_model.onnx", state)
        optimizer = Optimizer(folder / "optimizer_model.onnx", module)
        optimizer.set_learning_rate(RATE)
        losses = []
        for x, y in batches:
            losses.append(float(module(x, y)))
            optimizer.step()
            module.lazy_reset_grad()
    return losses, state.arrays
