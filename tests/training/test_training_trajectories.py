"""The same start and the same batches give the losses that PyTorch gives, step by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sardonyx.training import artifacts
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.graphs import Rule
from sardonyx.training.stepper import FusedStep
from training_models import NETWORKS, exported

pytestmark = pytest.mark.heavy
STEPS = 20


@pytest.mark.parametrize("name", NETWORKS)
def test_the_losses_of_a_run_are_pytorchs(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    make, draw = NETWORKS[name]
    network = make().train()
    start = {key: value.clone() for key, value in network.state_dict().items()}
    model = exported(network, draw())
    network.load_state_dict(start)  # the export ran it once, which moved its statistics
    manifest = artifacts.generate_artifacts(
        model,
        loss="cross_entropy",
        optimizer=Rule("sgd", {"momentum": 0.9}),
        artifact_directory=tmp_path,
        batch_norm="torch",
    )
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    for key, value in start.items():
        if key in state.arrays and "running" in key:
            state.arrays[key][...] = value.numpy()
    stepper = FusedStep(tmp_path, manifest, state)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    ours, theirs = [], []
    for _ in range(STEPS):
        x, y = draw(), torch.randint(0, 10, (8,))
        ours.append(stepper.step([{"x": x.numpy(), "labels": y.numpy()}], 0.02))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    # Both sum in float32 in their own order; a difference of some 1e-7 in a step grows with the steps after it.
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    moved = [abs(state.arrays[each.name] - each_start).max() for each, each_start in _starts(manifest, tmp_path)]
    assert min(moved) > 0
    for key, value in network.state_dict().items():
        if "running" in key:
            np.testing.assert_allclose(state.arrays[key], value.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)


def _starts(manifest: artifacts.Manifest, folder: Path) -> list[tuple[object, object]]:
    first = CheckpointState.load_checkpoint(folder / "checkpoint")
    return [(each, first.arrays[each.name]) for each in manifest.trainable]
