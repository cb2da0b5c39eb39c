"""PyTorch models in which the type of a number matters: precision, promotion, and values that are not numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Traps, floats

TRAPS = Traps("torch", live=True)
add = TRAPS.add
PRECISION, PROMOTION, MISSING = "precision", "dtype promotion", "missing values"
NAN = float("nan")


def wide(*shape: int, scale: float = 1.0, offset: float = 0.0) -> Any:
    """Normal float64 numbers."""
    return np.random.default_rng(0).standard_normal(shape) * scale + offset


# Precision.


@add(
    PRECISION,
    inputs=("x=float64[n,4]",),
    cases=lambda _: [{"x": wide(5, 4)}, {"x": wide(5, 4, offset=1e9)}],
    live=False,
    rtol=1e-9,
    atol=1e-12,
)
class DoubleThroughout(nn.Module):
    """Float64 in and out: a float32 constant on the way shows in the seventh digit."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 1e9 - x.mean() * 0) * 0.1 + torch.tensor(1 / 3, dtype=torch.float64)  # trap


@add(
    PRECISION, inputs=("x=float32[n,4]",), cases=lambda _: [{"x": floats(5, 4)}, {"x": floats(5, 4) + np.float32(4096)}]
)
class VarianceInDouble(nn.Module):
    """The variance by the textbook's formula, which needs double precision for large values."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.double()
        return ((y * y).mean(0) - y.mean(0) ** 2).float()  # trap


@add(
    PRECISION,
    inputs=("x=float32[n,4]",),
    honest=True,
    cases=lambda _: [{"x": floats(5, 4)}, {"x": floats(50, 4, scale=100)}],
)
class PlainVariance(nn.Module):
    """`x.var(0)`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.var(0)


@add(
    PRECISION,
    inputs=("x=float64[n,4]",),
    honest=True,
    rtol=1e-9,
    cases=lambda _: [{"x": wide(5, 4)}, {"x": wide(9, 4, scale=30)}],
)
class DoubleVariance(nn.Module):
    """`x.var(0)` in float64."""

    def forward(self, x: Tensor) -> Tensor:
        return x.var(0) + x.std(1).mean()


@add(
    PRECISION,
    inputs=("seconds=float64[n]",),
    example=lambda: {"seconds": np.array([10.0, 20.5])},
    cases=lambda _: [{"seconds": np.array([1.7e9 + 0.125, 1.7e9 + 1.5, 3.0])}],
    rtol=1e-6,
)
class TimeOfDay(nn.Module):
    """The seconds since midnight of a time stamp: float32 has no seconds left at 1.7e9."""

    def forward(self, seconds: Tensor) -> Tensor:
        return torch.remainder(seconds, 86400.0).float()  # trap


@add(
    PRECISION,
    inputs=("x=float16[n,8]",),
    cases=lambda _: [{"x": (floats(3, 8) * 40).astype(np.float16)}],
    rtol=1e-2,
    atol=1e-3,
)
class HalfSquares(nn.Module):
    """A sum of squares of half precision: what leaves its range is infinite in the original too."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * x).sum(1)  # trap


@add(
    PRECISION,
    inputs=("x=float32[n]",),
    cases=lambda _: [{"x": np.array([1e4, 123456.0, 0.5], np.float32)}],
    rtol=1e-3,
    atol=1e-3,
)
class SineOfLargeAngles(nn.Module):
    """Angles of a hundred thousand turns."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(x.double()).float()  # trap


@add(PRECISION, inputs=("x=float32[n,5]",), cases=lambda _: [{"x": floats(3, 5)}, {"x": floats(3, 5, scale=300)}])
class LogSumOfExponentials(nn.Module):
    """Written out, it overflows above 88, in the original too."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.log(torch.exp(x.double()).sum(1)).float() + torch.logsumexp(x, 1)  # trap


@add(
    PRECISION,
    inputs=("x=float32[n,3]",),
    honest=True,
    cases=lambda _: [{"x": floats(4, 3)}, {"x": floats(4, 3, scale=1e-3)}],
)
class InverseOfMatrix(nn.Module):
    """Solves a small system that depends on nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.linalg.inv(torch.eye(3) * 2 + torch.ones(3, 3) * 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix


@add(PRECISION, inputs=("x=float32[n,6]",), honest=True, options={"atol": 1e-6}, cases=lambda _: [{"x": floats(5, 6)}])
class WithinAMillionth(nn.Module):
    """Plain layers, with a tolerance that the user gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) * 100


# Promotion of types.


@add(
    PROMOTION,
    inputs=("x=int32[n,3]",),
    live=False,
    cases=lambda _: [{"x": np.array([[2**31 - 1, 1, 1], [-5, 2, 3]], np.int32)}],
)
class TotalOfIntegers(nn.Module):
    """Sums and products of int32 are int64."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(), x.prod(1)  # trap


@add(PROMOTION, inputs=("x=bool[n,5]",), cases=lambda _: [{"x": np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0]], bool)}])
class CountsTrue(nn.Module):
    """A sum of booleans is int64."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(1), x.cumsum(1)  # trap


@add(
    PROMOTION,
    inputs=("x=float32[n,3]", "scale=float64[]"),
    example=lambda: {"x": floats(2, 3), "scale": np.array(2.0)},
    cases=lambda _: [{"x": floats(2, 3), "scale": np.array(0.1)}],
)
class ScalarOfDouble(nn.Module):
    """A float64 tensor without dimensions does not widen a float32 tensor."""

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return x * scale  # trap


@add(
    PROMOTION,
    inputs=("x=float32[n,3]", "scale=float64[3]"),
    example=lambda: {"x": floats(2, 3), "scale": np.array([2.0, 1.0, 3.0])},
    cases=lambda _: [{"x": floats(2, 3), "scale": np.array([1e-9, 1e9, 0.1])}],
    rtol=1e-8,
    atol=1e-14,
)
class VectorOfDouble(nn.Module):
    """A float64 tensor with dimensions does."""

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return x * scale + 1  # trap


@add(PROMOTION, inputs=("x=int64[n]",), cases=lambda _: [{"x": np.array([2**24 + 1, -3, 0, 7])}])
class IntegerTimesFraction(nn.Module):
    """An integer times a Python float is float32."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 0.5, x / 3  # trap


@add(PROMOTION, inputs=("x=int64[n]",), cases=lambda _: [{"x": np.array([0, 1, 2, -1])}])
class ComparesWithFraction(nn.Module):
    """Integers above a half: the constant must not be rounded to an integer."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x > 0.5, (x - 0.5).clamp(min=0)  # trap


@add(
    PROMOTION,
    inputs=("a=int64[n]", "b=float32[n]"),
    example=lambda: {"a": np.array([1, 2]), "b": np.array([0.5, 1.5], np.float32)},
    cases=lambda _: [{"a": np.array([2**24 + 1, -3]), "b": np.array([0.25, -0.5], np.float32)}],
)
class MixedColumns(nn.Module):
    """Integers and floats side by side in one tensor."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.stack([a, b], 1) + torch.where(b > 0, a, b)[:, None]  # trap


@add(
    PROMOTION,
    inputs=("x=float32[n]",),
    cases=lambda _: [{"x": np.array([-1.7, 1.7, 2.5, -0.5, 200.9, 0.4], np.float32)}],
)
class CastsToIntegers(nn.Module):
    """Casts truncate; rounding goes to even."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.to(torch.int64), torch.round(x).to(torch.int32), x.to(torch.bool)  # trap


@add(PROMOTION, inputs=("x=float32[n]",), cases=lambda _: [{"x": np.array([3.0, 250.0, 127.0], np.float32)}])
class CastsToBytes(nn.Module):
    """Pixels as bytes, added up as bytes."""

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.clamp(0, 255).to(torch.uint8)
        return pixels + pixels  # trap


@add(PROMOTION, inputs=("x=float32[n,4]",), honest=True, cases=lambda _: [{"x": floats(3, 4)}])
class PositionsAsFloats(nn.Module):
    """The positions are integers until they are multiplied."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.arange(4) + torch.arange(0, 2, 0.5)


@add(
    PROMOTION,
    inputs=("x=float32[n,4]",),
    honest=True,
    cases=lambda _: [{"x": floats(3, 4)}, {"x": np.zeros((1, 4), np.float32)}],
)
class MaskAsNumber(nn.Module):
    """A mask becomes a factor."""

    def forward(self, x: Tensor) -> Tensor:
        mask = x > 0
        return x * mask + mask.float().mean(1, keepdim=True) + (~mask).sum(1, keepdim=True)


@add(PROMOTION, inputs=("ids=int32[n,3]",), honest=True, cases=lambda _: [{"ids": np.array([[0, 4, 2], [1, 1, 3]], np.int32)}],
     example=lambda: {"ids": np.array([[0, 1, 2], [4, 3, 2]], np.int32)})  # fmt: skip
class NarrowIndices(nn.Module):
    """Indices of 32 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).sum(1)


# Values that are not numbers.


@add(
    MISSING,
    inputs=("x=float32[n,4]",),
    live=False,
    cases=lambda _: [{"x": floats(2, 4)}, {"x": np.array([[1, NAN, 3, NAN], [NAN] * 4], np.float32)}],
)
class FillsWithColumnMean(nn.Module):
    """Holes get the mean of their row; a row without any value gets zero."""

    def forward(self, x: Tensor) -> Tensor:
        holes = torch.isnan(x)
        known = torch.where(holes, torch.zeros_like(x), x)
        mean = known.sum(1, keepdim=True) / (~holes).sum(1, keepdim=True).clamp(min=1)
        return torch.where(holes, mean, x)  # trap


@add(
    MISSING,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(2, 4)}, {"x": np.array([[1, NAN, 3, 2], [NAN, 5, 6, 7]], np.float32)}],
)
class LargestWithHoles(nn.Module):
    """The largest of values with a hole is a hole in PyTorch; comparisons elsewhere drop it."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.amax(1), x.amin(1)  # trap


@add(
    MISSING,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(2, 4)}, {"x": np.array([[1, NAN, 3, 2], [NAN, 5, 9, 7]], np.float32)}],
)
class PositionOfLargestWithHoles(nn.Module):
    """A hole is the largest in `argmax`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(1)  # trap


@add(
    MISSING,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(2, 4)}, {"x": np.array([[1, NAN, -3, 2]], np.float32)}],
)
class ActivatesHoles(nn.Module):
    """A hole stays a hole through clamp, relu and maximum."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.clamp(-1, 1), torch.relu(x), torch.maximum(x, torch.zeros_like(x))  # trap


@add(
    MISSING,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(2, 4)}, {"x": np.array([[4, NAN, 3, 2], [NAN, 5, NAN, 7]], np.float32)}],
)
class SortsHolesLast(nn.Module):
    """Holes are sorted behind all numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sort(1).values[:, :2]  # trap


@add(
    MISSING,
    inputs=("x=float32[n,4]",),
    honest=True,
    cases=lambda _: [{"x": floats(2, 4)}, {"x": np.array([[1, NAN, np.inf, -np.inf]], np.float32)}],
)
class ReplacesHoles(nn.Module):
    """`nan_to_num` with a value for each."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.nan_to_num(x, nan=-1.0, posinf=9.0, neginf=-9.0) * 2
