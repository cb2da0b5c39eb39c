"""PyTorch models whose path through the code depends on the sizes of their inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from traps._trap import Traps, floats

TRAPS = Traps("torch", live=True)
add = TRAPS.add
CLASS = "control flow on sizes"
ROWS = ("x=float32[n,3]",)


@add(CLASS, inputs=ROWS, live=False, cases=lambda _: [{"x": floats(23, 3)}, {"x": floats(24, 3)}, {"x": floats(70, 3)}])
class SmallBatch(nn.Module):
    """Batches of less than 24 rows go another way."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) < 24:
            return x * 2
        return x - x.mean(0)  # trap


@add(CLASS, inputs=("x=float32[n,length]",), cases=lambda _: [{"x": floats(1, 100)}, {"x": floats(2, 400)}])
class CutsLongSequences(nn.Module):
    """What is longer than 256 is cut."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(1) > 256:
            x = x[:, :256]  # trap
        return x.cumsum(1)[:, -1]


@add(
    CLASS,
    inputs=("x=float32[n,length]",),
    cases=lambda _: [{"x": floats(2, 8)}, {"x": floats(2, 9)}, {"x": floats(2, 1)}],
)
class PadsOddLengths(nn.Module):
    """Pairs of neighbours: an odd length gets a zero at the end."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(1) % 2 == 1:
            x = functional.pad(x, [0, 1])  # trap
        return x[:, ::2] - x[:, 1::2]


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(5, 3)}, {"x": floats(16, 3)}, {"x": floats(50, 3)}])
class ChunksOfSixteen(nn.Module):
    """Works through the rows in pieces of sixteen, each centred on its own mean."""

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:0]]
        for start in range(0, x.size(0), 16):
            part = x[start : start + 16]
            parts.append(part - part.mean(0))  # trap
        return torch.cat(parts)


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(1, 3)}, {"x": floats(4, 3)}])
class OneRowStays(nn.Module):
    """A single row cannot be centred, and is passed on."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) == 1:
            return x * 5  # trap
        return x - x.mean(0)


@add(
    CLASS,
    inputs=("x=float32[n,length]",),
    cases=lambda _: [{"x": floats(2, 4)}, {"x": floats(2, 5)}, {"x": floats(1, 33)}],
)
class PadsToPowerOfTwo(nn.Module):
    """Lengths grow to the next power of two."""

    def forward(self, x: Tensor) -> Tensor:
        size = 1
        while size < x.size(1):
            size = size * 2  # trap
        return functional.pad(x, [0, size - x.size(1)])


@add(
    CLASS,
    inputs=("x=float32[n,length]",),
    cases=lambda _: [{"x": floats(2, 20)}, {"x": floats(2, 64)}, {"x": floats(12, 9)}],
)
class LargeInputIsPooled(nn.Module):
    """More than a hundred values are averaged in pairs first."""

    def forward(self, x: Tensor) -> Tensor:
        if x.numel() > 100:
            x = functional.avg_pool1d(x.unsqueeze(1), 2).squeeze(1)  # trap
        return x.sum(1)


@add(
    CLASS,
    inputs=("x=float32[n,height,width]",),
    cases=lambda _: [{"x": floats(1, 4, 6)}, {"x": floats(1, 6, 4)}, {"x": floats(2, 5, 5)}],
)
class TurnsPortraits(nn.Module):
    """Pictures that are higher than wide are turned."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(1) > x.size(2):
            x = x.transpose(1, 2)  # trap
        return x.sum(2)


@add(CLASS, inputs=("x=float32[n,height,width]",), cases=lambda _: [{"x": floats(1, 4, 6)}, {"x": floats(2, 5, 5)}])
class SquareIsSymmetric(nn.Module):
    """Square matrices are made symmetric; others are not."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(1) == x.size(2):
            return x + x.transpose(1, 2)  # trap
        return x * 2


@add(
    CLASS,
    inputs=("x=float32[n,length,2]",),
    example=lambda: {"x": floats(2, 4, 2)},
    cases=lambda _: [{"x": floats(1, 3, 2)}, {"x": floats(2, 7, 2)}, {"x": floats(1, 40, 2)}],
)
class RecurrentLoop(nn.Module):
    """One step for each position."""

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in range(x.size(1)):
            state = torch.tanh(state * 0.5 + x[:, step])  # trap
        return state


@add(
    CLASS,
    inputs=("x=float32[n,length]",),
    cases=lambda _: [{"x": floats(1, 5)}, {"x": floats(3, 32)}, {"x": floats(3, 33)}],
)
class ScaleByLength(nn.Module):
    """Takes a square root of the length in Python, which a trace writes down as a number."""

    def forward(self, x: Tensor) -> Tensor:
        return x / math.sqrt(x.size(1))  # trap


@add(
    CLASS,
    inputs=("x=float32[n,length,4]",),
    honest=True,
    cases=lambda _: [{"x": floats(1, 3, 4)}, {"x": floats(5, 9, 4)}],
)
class CausalAttention(nn.Module):
    """A mask as long as the sequence."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, -1) @ x


@add(
    CLASS,
    inputs=("x=float32[n,3,height,width]",),
    honest=True,
    cases=lambda _: [{"x": floats(1, 3, 5, 9)}, {"x": floats(3, 3, 12, 8)}],
)
class GlobalPooling(nn.Module):
    """A picture of any size becomes two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@add(
    CLASS,
    inputs=("x=float32[n,length,4]",),
    honest=True,
    cases=lambda _: [{"x": floats(2, 3, 4)}, {"x": floats(1, 50, 4)}],
)
class SinePositions(nn.Module):
    """Positions are computed from the length."""

    def forward(self, x: Tensor) -> Tensor:
        position = torch.arange(x.size(1), dtype=torch.float32)[:, None]
        return x + torch.cat([torch.sin(position), torch.cos(position), position / 10, position * 0], 1)


@add(CLASS, inputs=("x=float32[n,length]",), honest=True, cases=lambda _: [{"x": floats(2, 3)}, {"x": floats(6, 40)}])
class ReshapesByMinusOne(nn.Module):
    """All pairs of rows, through a view that infers a size."""

    def forward(self, x: Tensor) -> Tensor:
        pairs = x[:, None, :] - x[None, :, :]
        return pairs.abs().reshape(-1, x.size(1)).sum(1).view(x.size(0), -1)
