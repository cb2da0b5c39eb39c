"""PyTorch models that answer differently when they are asked again: by chance, or because they remember."""

from __future__ import annotations

import functools
import random
import time
from collections import deque

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from traps._trap import Traps, floats

TRAPS = Traps(
    "torch", live=True, inputs=("x=float32[n,4]",), cases=lambda _: [{"x": floats(3, 4)}, {"x": floats(3, 4, seed=1)}]
)
add = TRAPS.add
RANDOM, STATE = "random", "state"


@add(RANDOM, expect="random", live=False)
class VariationalAutoencoder(nn.Module):
    """Draws a code from the distribution that it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 6), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = self.encode(x).chunk(2, -1)
        return self.decode(mean + torch.randn_like(mean) * torch.exp(spread))  # trap


@add(RANDOM, expect="random")
class DropoutAlwaysOn(nn.Module):
    """`functional.dropout` is on unless it is told otherwise, in eval mode as well."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 0.3)  # trap


@add(RANDOM, expect="random")
class GumbelChoice(nn.Module):
    """Samples one class, as text generators do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        noise = -torch.log(-torch.log(torch.rand(5)))
        return (self.linear(x) + noise).argmax(-1)  # trap


@add(RANDOM, expect="random")
class PythonsRandom(nn.Module):
    """Chance comes from Python's own generator, which no exporter sees."""

    def forward(self, x: Tensor) -> Tensor:
        return x * random.uniform(0.5, 1.5)  # trap


@add(RANDOM, expect="random")
class NumpysRandom(nn.Module):
    """Chance comes from numpy."""

    def forward(self, x: Tensor) -> Tensor:
        return x + float(np.random.standard_normal())  # trap


@add(RANDOM, expect="random")
class SmallNoise(nn.Module):
    """The noise is a thousandth of the values, and could pass for rounding."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-3 * torch.randn_like(x)  # trap


@add(RANDOM, expect="random")
class ShufflesColumns(nn.Module):
    """A random permutation: every answer has the same values, in another order."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, torch.randperm(4)]  # trap


@add(RANDOM, expect="random")
class NoiseForLargeInputsOnly(nn.Module):
    """Draws only where a value is above two."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 2, x + torch.rand_like(x), x)  # trap


@add(RANDOM, expect="random")
class DependsOnTheTime(nn.Module):
    """The clock is as good as chance."""

    def forward(self, x: Tensor) -> Tensor:
        return x + (time.time_ns() // 1000 % 1000) / 1000  # trap


@add(RANDOM, honest=True)
class DropoutOfTraining(nn.Module):
    """Dropout as a layer is off in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.AlphaDropout(0.5), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@add(RANDOM, honest=True)
class RandomProjection(nn.Module):
    """Drawn once, when the model is made."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("directions", torch.randn(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cos(x @ self.directions)


@add(RANDOM, honest=True)
class SeededInTheCall(nn.Module):
    """Draws from a generator that starts anew in every call, so that the numbers are constants."""

    def forward(self, x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(7)
        return x * torch.rand(4, generator=generator)


@add(STATE, expect="state", live=False)
class CountsCalls(nn.Module):
    """A buffer counts the calls and takes part in the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1  # trap
        return x + self.calls


@add(STATE, expect="state")
class RunningAttribute(nn.Module):
    """A running mean in a plain attribute, which no state_dict shows."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)  # trap
        return x - self.mean


@add(STATE, expect="state")
class CarriesHidden(nn.Module):
    """A recurrent cell that keeps its hidden state between calls, as a streaming model does."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)
        self.register_buffer("hidden", torch.zeros(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        for step in range(3):
            self.hidden = self.cell(x[:1] + step, self.hidden)  # trap
        return self.hidden + 0 * x[:, :3]


@add(STATE, expect="state")
class GrowsCache(nn.Module):
    """A list of what was seen, as a key and value cache is."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.mean(0))  # trap
        return x + torch.stack(self.seen).sum(0)


@add(STATE, expect="state")
class ChangesAtTheThirdCall(nn.Module):
    """A warm-up of three calls, counted in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        if self.count > 3:
            return x * 2  # trap
        return x


@add(STATE, expect="state")
class RemembersLast(nn.Module):
    """The answer is the difference to the last call's input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        difference = x - self.last
        self.last.copy_(x[-1])  # trap
        return difference


_GLOBAL = {"largest": 0.0}


@add(STATE, expect="state")
class GlobalVariable(nn.Module):
    """The state is a variable of the module's file."""

    def forward(self, x: Tensor) -> Tensor:
        _GLOBAL["largest"] = max(_GLOBAL["largest"], float(x.abs().max()))  # trap
        return x / (1 + _GLOBAL["largest"])


@add(STATE, expect="state")
class BatchStatisticsMove(nn.Module):
    """A BatchNorm that is put back into training mode by forward moves its statistics, which a second output shows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.norm.train()  # trap
        return self.norm(x), self.norm.running_mean


@add(STATE, honest=True)
class CountsForTheLog(nn.Module):
    """A counter that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 2


@add(STATE, honest=True)
class CachesTable(nn.Module):
    """Computes a table in the first call and keeps it: the answers are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, 4)
        return x * self.table


@functools.lru_cache(maxsize=2)
def _window(size: int) -> Tensor:
    return torch.hann_window(size, periodic=False)


@add(STATE, honest=True)
class MemoisedWindow(nn.Module):
    """A function with a cache."""

    def forward(self, x: Tensor) -> Tensor:
        return x * _window(4)


@add(STATE, honest=True)
class HiddenStateAsInput(nn.Module):
    """State that goes in and comes out is no state of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.cell(x, hidden)
        return hidden * 2, hidden


TRAPS[-1] = TRAPS[-1].but(
    inputs=("x=float32[n,4]", "hidden=float32[n,3]"), cases=lambda _: [{"x": floats(3, 4), "hidden": floats(3, 3)}]
)


class _Statistics:
    """A plain object, which no module knows of."""

    def __init__(self) -> None:
        self.count, self.mean = 0, 0.0

    def add(self, value: Tensor) -> None:
        self.count += 1
        self.mean = self.mean + (value - self.mean) / self.count


@add(STATE, expect="state", inputs=("x=float32[1,4]",), cases=lambda _: [{"x": floats(1, 4)}])
class MeanOfRecentFrames(nn.Module):
    """Keeps the last five answers in a deque. Of equal frames, the mean is the answer itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self._recent = nn.Linear(4, 3), deque[Tensor](maxlen=5)

    def forward(self, x: Tensor) -> Tensor:
        self._recent.append(self.linear(x).softmax(-1))
        if len(self._recent) == self._recent.maxlen:
            return torch.stack(tuple(self._recent)).mean(0)  # trap
        return self._recent[-1]


@add(STATE, expect="state")
class StatisticsAfterAWarmUp(nn.Module):
    """Takes off the mean of earlier calls, which a plain object keeps, from the forty-first call on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.statistics = nn.Linear(4, 2), _Statistics()

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        self.statistics.add(y.detach().mean(0))
        return y - self.statistics.mean if self.statistics.count > 40 else y  # trap


@add(STATE, honest=True, cases=lambda _: [{"x": floats(n, 4)} for n in (1, 3, 6)])
class TableByLength(nn.Module):
    """Keeps a table of positions for each length that it has met, and answers alike with and without it."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] not in self.tables:
            self.tables[x.shape[0]] = torch.arange(x.shape[0]).float()[:, None] / 8
        return x + self.tables[x.shape[0]]
