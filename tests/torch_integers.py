"""Integer arithmetic in PyTorch that ONNX does otherwise: rounding, shifts, the types of sums, repeated indices."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Division(nn.Module):
    """Every way to divide one integer by another."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        return (
            x // y,
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            x % y,
            torch.fmod(x, y),
            x / y,
            x.clone().floor_divide_(y),
        )


class ByNumbers(nn.Module):
    """Division by numbers that stand in the code."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        return x // 3, x // -3, x % 3, x % -3, torch.fmod(x, 3), (x // 60) % 24, x // 2.5, x * 3 // 2 - (x // 4)


class Shifts(nn.Module):
    """Shifts by counts that are computed, and by numbers that stand in the code."""

    def forward(
        self, x: Tensor, count: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        return x >> count, x << count, x >> 1, x >> 3, x << 2, x >> 0, x >> 70, x << 70


class Sums(nn.Module):
    """Reductions whose result has another type than what goes in."""

    def forward(
        self, x: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        return (
            x.sum(),
            x.sum(0),
            x.sum(1, keepdim=True),
            x.cumsum(0),
            (x > 0).sum(),
            (x > 0).cumsum(1),
            x.cumsum(1, dtype=torch.int32),
            torch.count_nonzero(x),
            x.any(),
            x.all(1),
        )


class Bits(nn.Module):
    """Operators that work bit by bit."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return x | y, x ^ y, x & y, x.bitwise_not()


class Floats(nn.Module):
    """Division of floats with rounding: the quotient alone does not tell the rounded one."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return (
            x // y,
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            x % y,
            torch.fmod(x, y),
        )


class Bounds(nn.Module):
    """Bounds on one side and on both, by numbers and by tensors."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        return x.clamp(min=-3), x.clamp(max=3), x.clamp(-2, 5), x.clamp(min=y), x.clamp(y - 1, y + 1), x.clamp(max=2.5)


class RepeatedIndices(nn.Module):
    """Adds to places that are named more than once."""

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.zeros(4, 3, dtype=x.dtype)
        columns = torch.zeros(3, 4, dtype=x.dtype)
        return (
            rows.index_add(0, index, x),
            columns.index_add(1, index, x.t().contiguous(), alpha=2),
            torch.zeros(4, dtype=x.dtype).scatter_add(0, index, x[:, 0]),
        )


class Sizes(nn.Module):
    """Halves sizes, which are never negative, and one that is."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[: x.shape[0] // 2], x[: -x.shape[0] // 3]


class AfterBranch(nn.Module):
    """Divides what comes from either of two branches, whose type the exporter may not know."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x - 7 if bool(x.max() > 50) else x * 2
        return y // 3, y % 3
