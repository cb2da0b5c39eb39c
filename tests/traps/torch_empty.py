"""PyTorch models on inputs with no rows, or with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Traps, floats

CLASS = "empty and single-element inputs"
TRAPS = Traps(
    "torch",
    live=True,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(1, 4)}, {"x": floats(0, 4)}],
)
add = TRAPS.add


def on(*shapes: tuple[int, ...], inputs: str) -> dict[str, Any]:
    """The fields of a model that takes one matrix, with a case for each shape."""
    return {"inputs": (inputs,), "cases": lambda _: [{"x": floats(*shape)} for shape in shapes]}


@add(CLASS, live=False)
class SqueezesEverything(nn.Module):
    """`squeeze()` without a dimension drops the batch when there is one row."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(1, keepdim=True).squeeze()  # trap


@add(CLASS)
class MeanOfNothing(nn.Module):
    """The mean of no rows is not a number, and their sum is zero."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(0), x.sum(0)  # trap


@add(CLASS, **on((3, 4), (1, 4), inputs="x=float32[n,4]"))
class SpreadOfOneRow(nn.Module):
    """The unbiased spread of one row is not a number."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.std(0) + 1e-5)  # trap


@add(CLASS)
class DefaultForNothing(nn.Module):
    """No rows give a default answer."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) == 0:
            return torch.full((4,), -1.0)  # trap
        return x.max(0).values


@add(CLASS)
class OnlyPositiveRows(nn.Module):
    """As many rows as are positive, perhaps none."""

    def forward(self, x: Tensor) -> Tensor:
        return x[x.sum(1) > 0] * 2  # trap


@add(CLASS, **on((3, 4), (1, 1), (2, 1), inputs="x=float32[n,length]"))
class DifferencesOfOne(nn.Module):
    """A sequence of one has no differences."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1:] - x[:, :-1]  # trap


@add(CLASS)
class AppendsToNothing(nn.Module):
    """A row of zeros is put in front."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros(1, 4), x]).cumsum(0)  # trap


@add(CLASS)
class ReshapesNothing(nn.Module):
    """A reshape with -1 is ambiguous when there are no rows."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.size(0), 2, 2).flatten(1) @ torch.ones(4, 2)  # trap


@add(CLASS, example=lambda: {"x": floats(2, 5)}, **on((3, 5), (1, 1), (2, 1), inputs="x=float32[n,length]"))
class SingleBroadcasts(nn.Module):
    """A length of one broadcasts against five weights, and others do not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weights  # trap


@add(CLASS)
class PositionsOfPositives(nn.Module):
    """`nonzero` may find nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return (x > 1).nonzero()  # trap


@add(CLASS, honest=True, **on((3, 5), (1, 1), (0, 3), inputs="x=float32[n,length]"))
class SoftmaxOfOne(nn.Module):
    """A softmax over one value is one."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, 1) * 2


@add(CLASS, honest=True)
class PlainLayers(nn.Module):
    """Layers row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@add(
    CLASS,
    honest=True,
    inputs=("x=float32[]",),
    cases=lambda _: [{"x": np.array(value, np.float32)} for value in (0, -2.5, 1e6)],
)
class OneNumber(nn.Module):
    """A tensor without dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + torch.tanh(x)
