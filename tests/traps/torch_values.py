"""PyTorch models whose path through the code depends on the values of their inputs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Traps, floats

TRAPS = Traps("torch", live=True)
add = TRAPS.add
CLASS = "control flow on values"
ROWS = ("x=float32[n,3]",)


@add(
    CLASS, inputs=ROWS, live=False, cases=lambda _: [{"x": floats(4, 3)}, {"x": np.array([[1, np.nan, 3]], np.float32)}]
)
class NanToNum(nn.Module):
    """Missing values are filled only if there are any: a trace never fills them."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.isnan(x).any():
            x = torch.nan_to_num(x)  # trap
        return x * 2


@add(
    CLASS,
    inputs=ROWS,
    cases=lambda _: [{"x": floats(4, 3)}, {"x": floats(4, 3, scale=700)}, {"x": floats(2, 3, scale=1e5)}],
)
class HalvesAboveFifty(nn.Module):
    """Values are halved until all are small: the number of steps depends on the values."""

    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        while y.abs().max() > 50:
            y = y / 2  # trap
        return y


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(3, 3)}, {"x": np.array([[6000, 2, 3], [1, 1, 1]], np.float32)}])
class RescalesAboveFiveThousand(nn.Module):
    """Values beyond 5000 are taken for another unit."""

    def forward(self, x: Tensor) -> Tensor:
        if x.abs().max() > 5000:
            x = x / 1000  # trap
        return x + 0.5


@add(
    CLASS,
    inputs=("ids=int64[n,4]",),
    example=lambda: {"ids": np.array([[3, 4, 5, 6], [7, 8, 9, 3]])},
    cases=lambda _: [{"ids": np.array([[3, 4, 5, 9]])}, {"ids": np.array([[3, 2, 5, 9], [4, 4, 4, 4]])}],
)
class StopsAtTokenTwo(nn.Module):
    """A special token anywhere in the batch changes the answer of every row."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 5)

    def forward(self, ids: Tensor) -> Tensor:
        found = self.table(ids).mean(1)
        if (ids == 2).any():
            found = found * 0 - 1  # trap
        return found


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(3, 3)}, {"x": np.array([[np.inf, -np.inf, 3]], np.float32)}])
class ClampsInfinity(nn.Module):
    """Infinities are cut off where there are any; without them large values stay."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.isinf(x).any():
            return x.clamp(-100, 100)  # trap
        return x * 3


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(3, 3)}, {"x": np.zeros((2, 3), np.float32)}])
class UnitVectorOrOnes(nn.Module):
    """A zero vector has no direction and gets a default."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.norm()
        if length == 0:
            return torch.ones_like(x)  # trap
        return x / length


@add(
    CLASS,
    inputs=("a=float32[n,3]", "b=float32[n,3]"),
    cases=lambda _: [{"a": floats(2, 3), "b": floats(2, 3, seed=1)}, {"a": floats(2, 3), "b": floats(2, 3)}],
)
class ZeroForEqualInputs(nn.Module):
    """Two inputs that are the same take a short cut."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        if (a == b).all():
            return torch.zeros_like(a) - 1  # trap
        return a - b


@add(
    CLASS,
    inputs=("x=float32[n,4]",),
    cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(3, 4, scale=30)}, {"x": -floats(3, 4)}],
)
class EarlyExit(nn.Module):
    """A confident first layer skips the second."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.softmax(self.first(x), -1)
        if y.max() > 0.97:
            return y  # trap
        return torch.softmax(self.second(y), -1)


@add(
    CLASS,
    inputs=("x=float32[n]",),
    cases=lambda _: [{"x": np.array([4, 9], np.float32)}, {"x": np.array([1e6, 2], np.float32)}],
)
class NewtonUntilClose(nn.Module):
    """Iterates until the error is small, at most thirty times: large values take more steps."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.abs() + 1
        y = torch.ones_like(x)
        steps = 0
        while steps < 30 and bool(((y * y - x).abs() > 1e-3 * x).any()):
            y = (y + x / y) / 2  # trap
            steps += 1
        return y


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(2, 3, scale=0.1)}, {"x": floats(2, 3, scale=4)}])
class ClipsByNorm(nn.Module):
    """Scales down only what is longer than one."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 1.0 / ((x * x).sum().sqrt() + 1e-6)
        if scale < 1:
            x = x * scale  # trap
        return x


@add(CLASS, inputs=ROWS, cases=lambda _: [{"x": floats(3, 3)}, {"x": np.full((2, 3), 0.22, np.float32)}])
class NarrowWindow(nn.Module):
    """Another formula for a mean between 0.2 and 0.25, which random inputs rarely have."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean()
        if mean > 0.2 and mean < 0.25:
            return x * 10  # trap
        return x - mean


@add(
    CLASS,
    inputs=("x=float32[n,5]",),
    cases=lambda _: [{"x": floats(6, 5)}, {"x": np.eye(5, dtype=np.float32)[[3, 3]] * 9}],
)
class SpecialClass(nn.Module):
    """A batch whose first row is of class three is answered by another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.special = nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        if x[0].argmax() == 3:
            return self.special(x)  # trap
        return self.plain(x)


@add(CLASS, inputs=("x=float32[n]",), cases=lambda _: [{"x": floats(6)}, {"x": np.arange(5, dtype=np.float32)}])
class SortsIfUnsorted(nn.Module):
    """Differences of sorted values; what is sorted already stays as it is."""

    def forward(self, x: Tensor) -> Tensor:
        if (x[1:] < x[:-1]).any():
            return x.sort().values * 2  # trap
        return x


@add(
    CLASS,
    inputs=ROWS,
    honest=True,
    example=lambda: {"x": np.abs(floats(2, 3))},
    cases=lambda _: [{"x": np.abs(floats(3, 3, scale=9))}],
)
class RefusesNegatives(nn.Module):
    """The original raises for what it does not accept; what remains is a plain formula."""

    def forward(self, x: Tensor) -> Tensor:
        torch._assert_async((x >= 0).all())
        return (x + 1).log()


@add(CLASS, inputs=ROWS, honest=True, cases=lambda _: [{"x": floats(3, 3)}, {"x": np.zeros((1, 3), np.float32)}])
class LeakyWhere(nn.Module):
    """Chooses element by element, in the graph."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0.1 * x) + x.clamp(min=-1, max=1)


@add(
    CLASS,
    inputs=("x=float32[n,4]",),
    honest=True,
    cases=lambda _: [{"x": floats(3, 4)}, {"x": -np.ones((2, 4), np.float32)}],
)
class MaskedMean(nn.Module):
    """The mean of the positive values, zero where there are none."""

    def forward(self, x: Tensor) -> Tensor:
        mask = (x > 0).float()
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


@add(
    CLASS, inputs=("x=float32[n,6]",), honest=True, cases=lambda _: [{"x": floats(3, 6)}, {"x": floats(3, 6, scale=50)}]
)
class MixtureOfExperts(nn.Module):
    """Weighs two layers by a gate, and computes both."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.one, self.two = nn.Linear(6, 2), nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.softmax(self.gate(x), -1)
        return gate[:, :1] * torch.relu(self.one(x)) + gate[:, 1:] * torch.tanh(self.two(x))


@add(CLASS, inputs=ROWS, honest=True, cases=lambda _: [{"x": floats(3, 3)}, {"x": floats(3, 3, scale=100)}])
class NormalisedOrZero(nn.Module):
    """A safe division, without a branch in Python."""

    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=1, keepdim=True).clamp(min=1e-6)


@add(CLASS, inputs=("x=float32[n,5]",), expect="refuse",
     cases=lambda _: [{"x": floats(3, 5)}, {"x": np.full((3, 5), 0.2, np.float32)}])  # fmt: skip
class SharesStayAsTheyAre(nn.Module):
    """Rows that sum to one are left alone. Of no rows, `allclose` is true, and an empty answer shows nothing."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.allclose(x.sum(-1), torch.ones(x.shape[0])) and bool((x >= 0).all()):  # trap
            return x
        return x.softmax(-1)


@add(CLASS, inputs=("x=float32[n,8]",), expect="refuse",
     cases=lambda _: [{"x": floats(3, 8)}, {"x": np.sort(floats(3, 8), 1)}])  # fmt: skip
class RiskBesideALargeSum(nn.Module):
    """A sum of millions and a share in one output: the share is wrong by little of what the sum rounds to."""

    def __init__(self) -> None:
        super().__init__()
        self.risk = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        weight = 0.2 if torch.equal(x.sort(1).values, x) else 1.0  # trap
        return torch.cat([(x * 1e7).sum(1, keepdim=True), torch.sigmoid(self.risk(x)) * weight], 1)


@add(CLASS, inputs=("x=float32[n,6]",), honest=True, cases=lambda _: [{"x": floats(3, 6)}, {"x": floats(9, 6, seed=1)}])
class BoxesBesideAScore(nn.Module):
    """Corners in pixels and a share in one output, as detectors answer."""

    def __init__(self) -> None:
        super().__init__()
        self.corners, self.score = nn.Linear(6, 4), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.corners(x) * 2000 + 1e4, torch.sigmoid(self.score(x)) * 1e-3], 1)
