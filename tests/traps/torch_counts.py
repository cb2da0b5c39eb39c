"""PyTorch models steered by integers and flags: how many times, which head, how far."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Arrays, Traps, floats

TRAPS = Traps("torch", live=True)
add = TRAPS.add
CLASS = "control flow on integers"


def steered(name: str, numbers: tuple[int, ...], columns: int = 6, first: int = 1) -> dict[str, Any]:
    """The fields of a model that takes `x` and one integer: `first` in the example, and each of `numbers` in a case."""

    def cases(_: np.random.Generator) -> list[Arrays]:
        return [{"x": floats(3, columns), name: np.array(number, np.int64)} for number in numbers]

    return {
        "inputs": (f"x=float32[n,{columns}]", f"{name}=int64[]"),
        "example": lambda: {"x": floats(2, columns), name: np.array(first, np.int64)},
        "cases": cases,
        "said": rf"\b{name}\b",
    }


@add(CLASS, live=False, **steered("n", (1, 0, 2, 7)))
class RepeatsSoManyTimes(nn.Module):
    """A loop as long as an input says becomes one step."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for _ in range(int(n)):
            x = torch.tanh(x) + 0.1  # trap
        return x


@add(CLASS, **steered("mode", (0, 1, 2), first=0))
class ChoosesHead(nn.Module):
    """An input chooses one of three layers: a trace keeps the example's."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(6, 2) for _ in range(3))

    def forward(self, x: Tensor, mode: Tensor) -> Tensor:
        return self.heads[int(mode)](x)  # trap


@add(CLASS, **steered("n", (1, 3, 6), first=4))
class FirstColumns(nn.Module):
    """As many columns as an input says."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x[:, : int(n)] * 2  # trap


@add(CLASS, **steered("k", (0, 4, 5, 6), first=0))
class OnlyForFive(nn.Module):
    """One single value of an integer is treated apart."""

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        if int(k) == 5:
            return x.flip(1)  # trap
        return x * 2


@add(CLASS, **steered("mode", (0, 1, 2, 9), first=0))
class SwitchOfModes(nn.Module):
    """A chain of ifs, as users write an enum."""

    def forward(self, x: Tensor, mode: Tensor) -> Tensor:
        kind = int(mode)
        if kind == 0:
            return x
        elif kind == 1:  # noqa: RET505
            return torch.relu(x)  # trap
        elif kind == 2:
            return torch.sigmoid(x)  # trap
        return x * 0


@add(CLASS, **steered("column", (0, 5, -1, -6), first=2))
class OneColumn(nn.Module):
    """Negative numbers count from the end."""

    def forward(self, x: Tensor, column: Tensor) -> Tensor:
        return x[:, int(column)] + 1  # trap


@add(CLASS, **steered("shift", (0, 2, 5, -1), first=1))
class RollsBy(nn.Module):
    """Rolls by so many columns, to the left if the number is negative."""

    def forward(self, x: Tensor, shift: Tensor) -> Tensor:
        return torch.roll(x, int(shift), 1)  # trap


@add(CLASS, **steered("times", (1, 3), first=2))
class RepeatsColumns(nn.Module):
    """The size of the answer is an input."""

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        return x.repeat(1, int(times))  # trap


@add(CLASS, **steered("step", (1, 2, 3, 5), first=1))
class EveryNthColumn(nn.Module):
    """The step of a slice is an input; a step of one looks like no slice at all."""

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        return x[:, :: int(step)]  # trap


@add(CLASS, **steered("k", (1, 2, 6), first=3))
class BestK(nn.Module):
    """As many of the largest values as an input says."""

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        return x.topk(int(k), dim=1).values  # trap


@add(
    CLASS,
    inputs=("x=float32[n,4]", "flag=bool[]"),
    example=lambda: {"x": floats(2, 4), "flag": np.array(False)},
    cases=lambda _: [{"x": floats(3, 4), "flag": np.array(flag)} for flag in (False, True)],
    said=r"\bflag\b",
)
class FlipsIfAsked(nn.Module):
    """A flag decides."""

    def forward(self, x: Tensor, flag: Tensor) -> Tensor:
        if bool(flag):
            x = x.flip(1)  # trap
        return x + 1


@add(
    CLASS,
    inputs=("x=float32[n,6]", "power=int64[]"),
    example=lambda: {"x": floats(2, 6), "power": np.array(2, np.int64)},
    cases=lambda _: [{"x": floats(3, 6), "power": np.array(power, np.int64)} for power in (0, 1, 2, 3)],
    said=r"\bpower\b",
)
class PowerOfAnnotatedInt(nn.Module):
    """An argument that is annotated as `int` is a number of the call, and is frozen unless something says so."""

    def forward(self, x: Tensor, power: int) -> Tensor:
        for _ in range(power):
            x = x * 0.5 + 1  # trap
        return x


TRAPS[-1] = TRAPS[-1].but(
    call=lambda model, arrays: [model(torch.from_numpy(arrays["x"]), int(arrays["power"])).numpy()]
)


@add(
    CLASS,
    inputs=("start=int64[]", "stop=int64[]", "step=int64[]"),
    example=lambda: {"start": np.array(0), "stop": np.array(6), "step": np.array(2)},
    cases=lambda _: [
        {"start": np.array(start), "stop": np.array(stop), "step": np.array(step)}
        for start, stop, step in ((0, 6, 2), (1, 10, 3), (6, 0, -2), (5, -5, -3), (3, 3, 1))
    ],
    said=r"\b(start|stop|step)\b",
)
class CountsDown(nn.Module):
    """A range whose step may be negative."""

    def forward(self, start: Tensor, stop: Tensor, step: Tensor) -> Tensor:
        return torch.arange(int(start), int(stop), int(step)) * 2  # trap


@add(CLASS, honest=True, **steered("n", (0, 1, -3, 100), first=2))
class ScalesByInteger(nn.Module):
    """An integer that only takes part in arithmetic."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x * n + n


@add(CLASS, honest=True, **steered("mode", (0, 1, 2), first=1))
class TableOfModes(nn.Module):
    """A mode that looks up a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.modes = nn.Embedding(3, 6)

    def forward(self, x: Tensor, mode: Tensor) -> Tensor:
        return x * self.modes(mode)


@add(CLASS, honest=True, **steered("mode", (0, 1, 2), first=0))
class WhereOnMode(nn.Module):
    """Both ways are computed, and the mode chooses in the graph."""

    def forward(self, x: Tensor, mode: Tensor) -> Tensor:
        return torch.where(mode == 1, torch.relu(x), -x)


@add(
    CLASS,
    inputs=("x=float32[n,length]", "lengths=int64[n]"),
    example=lambda: {"x": floats(3, 5), "lengths": np.array([5, 2, 3])},
    cases=lambda _: [
        {"x": floats(4, 7), "lengths": np.array([7, 0, 1, 4])},
        {"x": floats(1, 2), "lengths": np.array([2])},
    ],
    honest=True,
)
class MeanOfLengths(nn.Module):
    """The mean over so many positions of each row, by a mask."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
        return (x * mask).sum(1) / lengths.clamp(min=1)
