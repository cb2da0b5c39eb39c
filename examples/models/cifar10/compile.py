"""Builds the training artifacts of a convolutional network for CIFAR-10: change the class, and run it again.

python examples/models/cifar10/compile.py --output build/artifacts/cifar10
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sardonyx import training


class Convolutional(nn.Module):
    """Three convolutions, each halving the picture, and two dense layers: 1,147,466 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 64, 3, padding=1)
        self.third = nn.Conv2d(64, 128, 3, padding=1)
        self.hidden = nn.Linear(128 * 4 * 4, 512)
        self.last = nn.Linear(512, classes)

    def forward(self, x: Any) -> Any:
        for layer in (self.first, self.second, self.third):
            x = torch.max_pool2d(torch.relu(layer(x)), 2)
        return self.last(torch.relu(self.hidden(x.flatten(1))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/artifacts/cifar10"))
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--optimizer", default="sgd")
    words = parser.parse_args()
    torch.manual_seed(0)
    words.output.parent.mkdir(parents=True, exist_ok=True)
    report = training.prepare(
        Convolutional(words.classes), words.output, optimizer=words.optimizer, inputs=["x=float32[batch,3,32,32]"]
    )
    print(report.to_text())


if __name__ == "__main__":
    main()
