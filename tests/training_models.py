"""Small networks for the tests of training, and a walk that PyTorch and Sardonyx take side by side."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from sardonyx.model import Model
from sardonyx.training import artifacts
from sardonyx.training.api import CheckpointState
from sardonyx.training.graphs import Rule
from sardonyx.training.stepper import AccumulatedStep, FusedStep

TEXT = """<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)
<float[4,3] w = {0.1,-0.2,0.3, 0.4,0.5,-0.6, 0.7,-0.8,0.9, -0.1,0.2,0.3}, float[3] b = {0.1,-0.1,0.2}>
{ z = MatMul(x, w) y = Add(z, b) }"""

Arrays = dict[str, np.ndarray[Any, Any]]


def trained(
    folder: Path, rule: Rule, make: Callable[..., Any], *, fused: bool = True, steps: int = 25, clip: float | None = None,
    accumulate: int = 1, rates: Callable[[int], float] = lambda step: 0.05,  # noqa: ARG005
    schedule: Callable[[Any], Any] | None = None,
) -> tuple[Arrays, Arrays]:  # fmt: skip
    """The parameters after some steps on the linear model, by Sardonyx and by PyTorch.

    `rates` gives our learning rate of every step; `schedule` makes PyTorch's of its optimizer.
    """
    manifest = artifacts.generate_artifacts(
        Model.from_text(TEXT), loss="mse", optimizer=rule, artifact_directory=folder
    )
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    names = [each.name for each in manifest.trainable]
    theirs = [nn.Parameter(torch.tensor(np.array(state.arrays[name]))) for name in names]
    optimizer = make(theirs)
    scheduler = None if schedule is None else schedule(optimizer)
    stepper = (FusedStep if fused else AccumulatedStep)(folder, manifest, state)
    random = np.random.default_rng(1)
    for step in range(steps):
        batches = [
            {
                "x": random.normal(size=(5, 4)).astype(np.float32),
                "target": random.normal(size=(5, 3)).astype(np.float32),
            }
            for _ in range(accumulate)
        ]
        stepper.step(batches, rates(step))
        optimizer.zero_grad()
        for batch in batches:
            found = torch.tensor(batch["x"]) @ theirs[0] + theirs[1]
            (nn.functional.mse_loss(found, torch.tensor(batch["target"])) / accumulate).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(theirs, clip)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return state.arrays, {name: p.detach().numpy() for name, p in zip(names, theirs, strict=True)}


def exported(network: nn.Module, example: Any) -> Model:
    """The network with its training operators kept and a free batch."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (example,), stream, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
        )  # fmt: skip
    return Model.from_proto(onnx.load_from_string(stream.getvalue()))


class Residual(nn.Module):
    """A ResNet's block with BatchNorm, between a stem and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.a, self.norm_a = nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.b, self.norm_b = nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.short = nn.Conv2d(8, 16, 1, 2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.first(self.stem(x)))
        inner = self.norm_b(self.b(torch.relu(self.norm_a(self.a(x)))))
        return self.head(torch.relu(inner + self.short(x)).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.embed(x))[0][:, -1])


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, activation="gelu")
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(self.embed(x)).mean(1))


def images() -> Any:
    return torch.randn(8, 3, 12, 12)


def words() -> Any:
    return torch.randint(0, 20, (8, 9))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "dense": (
        lambda: nn.Sequential(
            nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
        ),
        lambda: torch.randn(8, 784),
    ),
    "convolutional": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(256, 10),
        ),
        images,
    ),
    "residual": (Residual, images),
    "recurrent": (Recurrent, words),
    "transformer": (Transformer, words),
}  # fmt: skip
