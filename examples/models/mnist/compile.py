"""Builds the training artifacts of a dense network for MNIST: change the class or the sizes, and run it again.

python examples/models/mnist/compile.py --output build/artifacts/mnist --hidden 200
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sardonyx import training


class Dense(nn.Module):
    """Two hidden layers; 784-200-200-10 has 199,210 parameters."""

    def __init__(self, inputs: int = 784, hidden: int = 200, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, classes)

    def forward(self, x: Any) -> Any:
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/artifacts/mnist"))
    parser.add_argument("--inputs", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--optimizer", default="sgd")
    words = parser.parse_args()
    torch.manual_seed(0)
    network = Dense(words.inputs, words.hidden, words.classes)
    words.output.parent.mkdir(parents=True, exist_ok=True)
    report = training.prepare(
        network, words.output, optimizer=words.optimizer, inputs=[f"x=float32[batch,{words.inputs}]"]
    )
    print(report.to_text())


if __name__ == "__main__":
    main()
