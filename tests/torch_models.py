"""Small PyTorch models and factories, each for one thing that a test looks at. The traps are in torch_traps.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """No trap: one linear layer and a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.linear(x))


class Normed(nn.Module):
    """No trap: what training needs to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.norm(self.linear(x)))


class Talks(nn.Module):
    """Prints while it runs."""

    def forward(self, x: Tensor) -> Tensor:
        print("hello", x.shape)  # noqa: T201
        return x + 1


class Unused(nn.Module):
    """Takes an input that it never looks at."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # noqa: ARG002
        return x * 2


class ThroughNumpy(nn.Module):
    """Leaves PyTorch for numpy and comes back."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)


class Singular(nn.Module):
    """Uses an operator that ONNX does not have."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.svd(x)[1]


class Sampled(nn.Module):
    """Uses an operator that ONNX has from opset 16 on."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.grid_sample(x, torch.zeros(1, 2, 2, 2), align_corners=False)


class Hangs(nn.Module):
    """Never comes back from being traced."""

    def forward(self, x: Tensor) -> Tensor:
        while torch.jit.is_tracing():
            pass
        return x + 1


def wrong() -> dict[str, str]:
    return {"not": "a module"}


def raises() -> nn.Module:
    raise RuntimeError("no such checkpoint")
