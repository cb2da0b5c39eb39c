"""A small CNN for scikit-learn's 8x8 digits, written as a user would write it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

TEST_SHARE = 5  # every fifth digit is held out


class DigitsNet(nn.Module):  # type: ignore[misc]  # torch is not seen by the type checker
    """1x8x8 pixels in 0..1 to ten logits; 25,826 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classify = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, 40), nn.ReLU(), nn.Linear(40, 10)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(image))


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, then the held-out ones."""
    data = load_digits()
    images = (data.images[:, None] / 16).astype(np.float32)
    held_out = np.arange(len(images)) % TEST_SHARE == 0
    return images[~held_out], data.target[~held_out], images[held_out], data.target[held_out]


def train(epochs: int, seed: int, *, after_epoch: Callable[[float], object] = float) -> DigitsNet:
    """A trained network. `after_epoch` gets the mean loss of every epoch."""
    torch.manual_seed(seed)
    images, labels, _, _ = digits()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    model = DigitsNet().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        after_epoch(total / len(x))
    return model.eval()
