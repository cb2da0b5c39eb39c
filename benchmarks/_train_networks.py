"""The networks whose training steps are measured, with a batch for each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

EXAMPLES = Path(__file__).parent.parent / "examples" / "models"
BATCH, CLASSES = 64, 10
WORDS, LENGTH = 1000, 32
Array = np.ndarray[Any, Any]


class Recurrent(nn.Module):
    """An embedding, an LSTM, and a dense layer on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.embed(x))[0][:, -1])


class Transformer(nn.Module):
    """An embedding, two encoder layers of four heads, and a dense layer on their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 128)
        # The stack of PyTorch's own class copies one layer, so that both would start alike.
        layers = (nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True) for _ in range(2))
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(self.embed(x)).mean(1))


@dataclass(frozen=True)
class Network:
    """What it is, how to make it, the shape of a batch (of words where `words`), and the least speed, as a share of PyTorch's."""

    title: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    goal: float
    words: bool = False

    def batch(self) -> tuple[Array, Array]:
        random = np.random.default_rng(0)
        if self.words:
            x: Array = random.integers(0, WORDS, self.shape)
        else:
            x = random.normal(size=self.shape).astype(np.float32)
        return x, random.integers(0, CLASSES, BATCH)


def _example(folder: str, kind: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        spec = importlib.util.spec_from_file_location(folder, EXAMPLES / folder / "compile.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made: nn.Module = getattr(module, kind)()
        return made

    return make


def _resnet() -> nn.Module:
    from _resnet20 import ResNet20

    return ResNet20()


NETWORKS = {
    "dnn": Network("dense 784-200-200-10", _example("mnist", "Dense"), (BATCH, 784), 1.0),
    "cnn": Network("CIFAR-10 CNN", _example("cifar10", "Convolutional"), (BATCH, 3, 32, 32), 0.9),
    "resnet20": Network("ResNet-20, BatchNorm", _resnet, (BATCH, 1, 28, 28), 0.9),
    "lstm": Network("LSTM classifier", Recurrent, (BATCH, LENGTH), 1.0, words=True),
    "transformer": Network("transformer", Transformer, (BATCH, LENGTH), 1.0, words=True),
}


def made(name: str) -> nn.Module:
    """The network as it starts, the same in every process."""
    torch.manual_seed(0)
    return NETWORKS[name].make().train()
