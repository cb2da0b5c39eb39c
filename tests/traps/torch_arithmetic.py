"""PyTorch models that compute with integers: signs, widths and overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Traps

TRAPS = Traps("torch", live=True)
add = TRAPS.add
CLASS = "integer arithmetic"
SIGNED = [[-7, -1, 0, 1, 7, 3], [-60, 59, -61, 1500, 2, -2]]


def on(*rows: list[list[int]], dtype: str = "int64", example: Any = None) -> dict[str, Any]:
    """The fields of a model that takes one matrix of integers, whose example has small positive ones."""
    width = len(rows[0][0])
    first = np.arange(1, 2 * width + 1).reshape(2, width) if example is None else np.array(example)
    return {
        "inputs": (f"x={dtype}[n,{width}]",),
        "example": lambda: {"x": first.astype(dtype)},
        "cases": lambda _: [{"x": np.array(matrix, dtype)} for matrix in rows],
    }


@add(CLASS, live=False, **on(SIGNED))
class FloorDivision(nn.Module):
    """-7 // 3 is -3 in PyTorch, and -2 where the export truncates."""

    def forward(self, x: Tensor) -> Tensor:
        return x // 3  # trap


@add(CLASS, **on(SIGNED))
class HourOfMinutes(nn.Module):
    """The hour of a time in minutes, also before the epoch."""

    def forward(self, x: Tensor) -> Tensor:
        return (x // 60) % 24  # trap


@add(CLASS, **on(SIGNED))
class ShiftsRight(nn.Module):
    """A shift keeps the sign; a division by two does not round alike."""

    def forward(self, x: Tensor) -> Tensor:
        return x >> 1  # trap


@add(
    CLASS,
    inputs=("x=int64[n]", "count=int64[n]"),
    example=lambda: {"x": np.array([1, 2, 3]), "count": np.array([0, 1, 2])},
    cases=lambda _: [{"x": np.array([1, 3, -5, 7]), "count": np.array([0, 4, 2, 40])}],
)
class ShiftsByCount(nn.Module):
    """Shift counts are data."""

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        return (x << count) + (x >> count)  # trap


@add(CLASS, **on(SIGNED))
class RemainderOfNegatives(nn.Module):
    """`%` takes the sign of the divisor, `fmod` that of the dividend."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x % 5, torch.fmod(x, 5), x % -5  # trap


@add(CLASS, **on([[2**31 - 1, 2**31 - 1, 5]], [[-(2**31), -1, -1]], dtype="int32"))
class SumOfSmallIntegers(nn.Module):
    """A sum of int32 is int64 in PyTorch; an export that stays in int32 overflows."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(1)  # trap


@add(CLASS, **on([[200, 100, 250, 9]], [[255, 255, 255, 255]], dtype="uint8"))
class RunningSumOfBytes(nn.Module):
    """A cumulative sum of bytes is int64."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1)  # trap


@add(CLASS, **on([[3_000_000_019, -3_000_000_019, 94906267]], [[2, -3, 1]]))
class SquaresLargeIntegers(nn.Module):
    """A power of integers by way of floating point is off in the last digits."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x**2, x * x  # trap


@add(CLASS, **on([[200, 100, 255]], [[0, 56, 55]], dtype="uint8"))
class BytesWrapAround(nn.Module):
    """250 + 10 is 4 in bytes."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + 200) * 2  # trap


@add(CLASS, **on([[2**53 + 1, 5, -(2**53) - 1]], [[2**62, 2**62 + 1, 0]]))
class LargestOfLargeIntegers(nn.Module):
    """Neighbours above 2^53 are equal to a floating point number."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.max(1).values, x.argmax(1), x.clamp(max=2**62)  # trap


@add(CLASS, **on([[100, -128, 127]], dtype="int8", example=[[1, 2, 3], [4, 5, 6]]))
class NegatesBytes(nn.Module):
    """The smallest signed byte has no positive."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return -x, x.abs()  # trap


@add(CLASS, **on([[7, -7, 8]], [[2**40 + 1, -(2**40), 3]]))
class RoundsHalves(nn.Module):
    """An integer halved, rounded to even."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.round(x / 2), torch.div(x, 2, rounding_mode="floor")  # trap


@add(
    CLASS,
    inputs=("a=int64[n]", "b=int64[n]"),
    example=lambda: {"a": np.array([7, 8, 9]), "b": np.array([2, 3, 4])},
    cases=lambda _: [{"a": np.array([-7, 7, -9, 9]), "b": np.array([2, -2, -4, 4])}],
)
class DividesByTensor(nn.Module):
    """Both signs in both places."""

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a // b, torch.remainder(a, b)  # trap


@add(CLASS, honest=True, **on(SIGNED))
class BitMasks(nn.Module):
    """And, or, exclusive or and not."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x & 3, x | 8, ~x ^ 5


@add(CLASS, honest=True, **on(SIGNED))
class TruncatedDivision(nn.Module):
    """A division that truncates by its name."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.div(x, 3, rounding_mode="trunc")


@add(CLASS, honest=True, **on([[123456789, -5, 0]], [[2**31, 7, 1]]))
class HashesIntoBuckets(nn.Module):
    """Feature hashing in 64 bits."""

    def forward(self, x: Tensor) -> Tensor:
        return ((x * 2654435761) & 0xFFFFFFFF) % 1000


@add(CLASS, honest=True, **on([[1, 2, 3]], [[-4, 100, 7]]))
class MeanOfIntegers(nn.Module):
    """A mean is taken in floating point."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float().mean(1)
