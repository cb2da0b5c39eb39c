"""PyTorch models that write into their tensors, and into views of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Traps, floats

CLASS = "in-place and aliasing"
TRAPS = Traps(
    "torch",
    live=True,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(3, 4)}, {"x": -floats(5, 4, seed=2, scale=3)}],
)
add = TRAPS.add


def rows_at(*choices: list[int]) -> dict[str, Any]:
    """The fields of a model that takes four rows and indices of some of them, which may repeat."""
    return {
        "inputs": ("x=float32[n,4]", "at=int64[k]"),
        "example": lambda: {"x": floats(4, 4), "at": np.array([0, 2])},
        "cases": lambda _: [{"x": floats(4, 4), "at": np.array(choice)} for choice in choices],
    }


@add(CLASS, live=False)
class AliasSeesTheWrite(nn.Module):
    """Two names for one tensor: a write by one shows in the other."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 0
        z = y
        z[:, 0] = 7.0  # trap
        return y, z * 2


@add(CLASS)
class ViewSeesTheWrite(nn.Module):
    """A write into a view changes what it is a view of."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        flat = y.view(-1)
        flat[::2] = 0.0  # trap
        return y + 1


@add(CLASS)
class TransposedWrite(nn.Module):
    """A write through a transposed view."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.t()[1].mul_(10)  # trap
        return y


@add(CLASS)
class ChangesItsInput(nn.Module):
    """Adds one to its own input, and answers with what it was before as well."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = x * 2
        x.add_(1)  # trap
        return x, before


@add(CLASS, **rows_at([1, 3], [2, 2, 2, 0]))
class AccumulatesRepeatedIndices(nn.Module):
    """`index_add` and `index_put_` with accumulate count every repetition."""

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y.index_put_((at,), torch.ones(at.size(0), 4), accumulate=True)  # trap
        return y + torch.zeros_like(x).index_add(0, at, x[at])


@add(CLASS, **rows_at([1, 3], [2, 2, 2, 0]))
class AddsOnceForRepeatedIndices(nn.Module):
    """`y[at] += 1` adds once to a row that is named twice."""

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        y = x.clone()
        y[at] += 1  # trap
        return y


@add(CLASS, **rows_at([1, 3], [2, 2, 2, 0], [3, 3, 3, 3]))
class LargestOfRepeatedIndices(nn.Module):
    """A scatter that keeps the largest, and one that multiplies, of what falls on the same row."""

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        index = at[:, None].expand(-1, 4)
        source = x[: at.size(0)]
        most = torch.zeros_like(x).scatter_reduce(0, index, source, "amax", include_self=False)  # trap
        return most, torch.ones_like(x).scatter_reduce(0, index, source, "prod")


@add(CLASS, **rows_at([1, 3], [0, 2, 3, 1]))
class PutsRows(nn.Module):
    """Rows are written to the places that another input names: with repeated indices not even the original is defined."""

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        return torch.zeros_like(x).index_copy(0, at, x[: at.size(0)]) + x.scatter(0, at[:, None], 9.0)  # trap


@add(CLASS)
class SwapsRows(nn.Module):
    """A swap through a copy, and one without, which loses a row."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, z = x.clone(), x.clone()
        y[0], y[-1] = y[-1].clone(), y[0].clone()
        first = z[0]
        z[0] = z[-1]
        z[-1] = first  # trap
        return y, z


@add(CLASS)
class MasksInPlace(nn.Module):
    """Writes where a mask is true, which depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[y < 0] = -0.5
        y.masked_fill_(y > 1, 1.0)  # trap
        return y


@add(CLASS)
class ShiftsWithinItself(nn.Module):
    """Every column gets the sum of those before it, one after the other."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        for column in range(1, 4):
            y[:, column] += y[:, column - 1]  # trap
        return y


@add(CLASS)
class FillsPreallocated(nn.Module):
    """Rows are written one by one into a tensor that was made for them: the count is the batch."""

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(x.size(0), 2)
        for row in range(x.size(0)):
            out[row, 0] = x[row].sum()
            out[row, 1] = x[row].max()  # trap
        return out


@add(CLASS)
class ReusesBuffer(nn.Module):
    """A scratch buffer that every call overwrites: it is no state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scratch", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.scratch.copy_(x.mean(0))  # trap
        return x - self.scratch


@add(CLASS, honest=True)
class InPlaceActivations(nn.Module):
    """`inplace=True` saves memory and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3), nn.SiLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@add(CLASS, honest=True)
class SliceAssignment(nn.Module):
    """A column is replaced in a copy."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 1:3] = x[:, :2] * 2
        return y


@add(CLASS, honest=True)
class ExpandedView(nn.Module):
    """Expanded and strided views that are only read."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1).expand(-1, 3, -1)[:, :, ::2] + x.t().contiguous().t()[:, None, 1::2]
