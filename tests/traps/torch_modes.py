"""PyTorch models that know training and evaluation apart: an export is made for evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from traps._trap import Traps, floats

CLASS = "train and eval mode"
TRAPS = Traps(
    "torch",
    live=True,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(6, 4, scale=3)}, {"x": floats(1, 4, seed=4)}],
)
add = TRAPS.add


def trained(norm: nn.Module, *shape: int) -> None:
    """Gives a BatchNorm statistics that are not those of a fresh one."""
    norm.train()
    with torch.no_grad():
        for step in range(5):
            norm(torch.randn(*shape) * 3 + step)


@add(CLASS, live=False)
class LeftInTraining(nn.Module):
    """Handed over in training mode, as it comes out of a training loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))
        trained(self.layers[1], 8, 6)
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # trap


@add(CLASS)
class BranchOnTraining(nn.Module):
    """Answers with logits in training and with probabilities in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self.linear(x)
        return torch.softmax(self.linear(x), -1)  # trap


@add(CLASS)
class BatchStatisticsAlways(nn.Module):
    """Without running statistics a BatchNorm uses the batch's, in evaluation as well."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)  # trap


TRAPS[-1] = TRAPS[-1].but(cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(6, 4, scale=3)}])


@add(CLASS)
class FunctionalBatchNorm(nn.Module):
    """Calls batch_norm with training on, and leaves the statistics alone."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, training=True)  # trap


TRAPS[-1] = TRAPS[-1].but(cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(6, 4, scale=3)}])


@add(CLASS)
class RefusesEvaluation(nn.Module):
    """`train` is overridden so that one layer always stays in evaluation: the common way to freeze a BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        trained(self.norm, 8, 4)
        self.drop = nn.Dropout(0.4)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(x))  # trap


@add(CLASS, expect="random")
class MonteCarloDropout(nn.Module):
    """Dropout is switched on for evaluation, to measure how sure the model is."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        self.drop.train()  # trap
        return self.drop(self.linear(x))


@add(CLASS, expect="random")
class DropoutWithoutMode(nn.Module):
    """Passes a constant where `self.training` belongs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(self.linear(x), p=0.2, training=True)  # trap


@add(CLASS)
class NoiseInTrainingOnly(nn.Module):
    """Adds noise in training."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + torch.randn_like(x)
        return x * 2  # trap


@add(CLASS)
class AuxiliaryHead(nn.Module):
    """A second output that exists in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.auxiliary = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 3)
        self.train()

    def forward(self, x: Tensor) -> Any:
        y = torch.relu(self.body(x))
        if self.training:
            return self.head(y), self.auxiliary(y)
        return self.head(y)  # trap


@add(CLASS)
class AsksItsChild(nn.Module):
    """Branches on the mode of one of its layers, which was frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        trained(self.norm, 8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) if not self.norm.training else x * 100  # trap


@add(
    CLASS,
    honest=True,
    inputs=("x=float32[n,3,6,6]",),
    cases=lambda _: [{"x": floats(2, 3, 6, 6)}, {"x": floats(1, 3, 6, 6, scale=5)}],
)
class TrainedConvolutions(nn.Module):
    """Convolutions with BatchNorm, in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        trained(self.norm, 4, 4, 5, 5)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.convolution(x))).mean((2, 3))


@add(CLASS, honest=True)
class LayerNorms(nn.Module):
    """Layers that know no mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@add(
    CLASS,
    honest=True,
    inputs=("x=float32[n,length,4]",),
    example=lambda: {"x": floats(2, 4, 4)},
    cases=lambda _: [{"x": floats(2, 5, 4)}, {"x": floats(1, 9, 4)}],
)
class RecurrentDropout(nn.Module):
    """An LSTM with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 3, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0][:, -1]
