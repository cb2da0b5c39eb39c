"""ResNet-20 for small grey pictures, in the layout of its paper, and its training."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

EPOCHS, BATCH = 3, 128


class Block(nn.Module):
    """Two convolutions beside a shortcut, which pads with zeros where the block widens."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.stride = 2 if outside > inside else 1
        self.first = nn.Conv2d(inside, outside, 3, self.stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)])
        self.widening = outside - inside

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        if self.stride > 1:
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.widening // 2, self.widening // 2))
        return functional.relu(x + y)


class ResNet20(nn.Module):
    """1x28x28 pixels to ten logits."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(*(Block(a, b) for a, b in pairwise(widths)))
        self.head = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


def train(weights: Path, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> None:
    """Writes the weights after a few epochs of SGD, which is enough to make every layer matter."""
    torch.manual_seed(0)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    model = ResNet20().train()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
    torch.save(model.state_dict(), weights)
