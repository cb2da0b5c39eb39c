"""Small PyTorch models that exporters get wrong or refuse, each with the inputs that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sardonyx.signature import Arrays, Signature


@dataclass(frozen=True)
class Trap:
    """A model, its inputs as `convert` takes them, and examples that make the trap spring."""

    factory: Callable[[], nn.Module]
    inputs: tuple[str, ...]
    make: Callable[[np.random.Generator], Arrays] | None = None
    sizes: dict[str, int] = field(default_factory=dict)

    def example(self, seed: int = 0) -> Arrays:
        if self.make is not None:
            return self.make(np.random.default_rng(seed))
        return Signature.parse(self.inputs).sample(seed=seed, sizes=self.sizes)


class Branch(nn.Module):
    """Takes another path when the sum of the input is negative."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


class ShapeLoop(nn.Module):
    """Loops once per row, so the number of steps is the size of a dynamic dimension."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x[0])
        for row in range(x.size(0)):
            total = total * 0.5 + x[row]
        return total


class WhileLoop(nn.Module):
    """Halves until small: the number of steps depends on the values."""

    def forward(self, x: Tensor) -> Tensor:
        while bool(x.abs().max() > 1):
            x = x / 2
        return x


class InPlace(nn.Module):
    """Writes into slices and masked places of its own tensor."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 0] = 1.0
        y[:, 1:] += x[:, :-1]
        y[y < 0] = 0.5
        return y.mul_(2)


class IntegerDivision(nn.Module):
    """Divides negative integers: floor, truncation and remainder differ."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x // 3, torch.div(x, 3, rounding_mode="trunc"), x % 3


class Spectrum(nn.Module):
    """The magnitude of a Fourier transform."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x, dim=-1).abs()


class ComplexOutput(nn.Module):
    """Answers with complex numbers, which ONNX has as a last dimension of two."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(x, dim=-1)


class DictInOut(nn.Module):
    """Takes a dict and answers with one whose keys are not in alphabetical order."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        hidden = self.linear(batch["x"]) * batch["scale"]
        return {"logits": hidden, "argmax": hidden.argmax(-1)}


class TupleInOut(nn.Module):
    """Takes a pair and answers with a nested tuple."""

    def forward(self, pair: tuple[Tensor, Tensor], bias: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        first, second = pair
        return first + second, (first * second, second - bias)


class OptionalInput(nn.Module):
    """Has an input that may be left out."""

    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 2.0) -> Tensor:
        if mask is not None:
            x = x * mask
        return x * scale


class SomeNone(nn.Module):
    """Answers None in one place."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        return x + 1, None, x * 2


class RunningMean(nn.Module):
    """Changes a buffer in every call, so a second call answers differently."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


class WhereNan(nn.Module):
    """Chooses with `where` between a NaN and a number."""

    def forward(self, x: Tensor) -> Tensor:
        safe = torch.where(x > 0, x.log(), torch.zeros_like(x))
        return torch.where(torch.isnan(x), torch.full_like(x, -7.0), safe)


class ClampInfinity(nn.Module):
    """Clamps from below only, so that infinity must stay infinity."""

    def forward(self, x: Tensor) -> Tensor:
        return (1 / x).clamp(min=-3)


class Strides(nn.Module):
    """Works on transposed, expanded and strided views."""

    def forward(self, x: Tensor) -> Tensor:
        turned = x.transpose(1, 2)[:, ::2]
        return (
            turned.reshape(x.shape[0], -1)
            + x.permute(0, 2, 1).contiguous().view(x.shape[0], -1)[:, : turned[0].numel()]
        )


class Tied(nn.Module):
    """An embedding whose matrix is also the output layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.output = nn.Linear(6, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(torch.tanh(self.embedding(tokens)))


class _Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-1, 1) * 3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 3 * (x.abs() <= 1)


class CustomFunction(nn.Module):
    """Calls an autograd.Function that has no ONNX symbol."""

    def forward(self, x: Tensor) -> Tensor:
        return _Clip.apply(x) + 1


class PackedRnn(nn.Module):
    """An LSTM over sequences of the lengths given beside them. Its answer is as long as the longest, unless `whole`."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.rnn = nn.LSTM(5, 4, batch_first=True, bidirectional=True)
        self.whole = whole

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, _) = self.rnn(packed)
        total = x.size(1) if self.whole else None
        unpacked, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=total)
        return unpacked, hidden


class Recurrent(nn.Module):
    """A GRU over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(5, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Low(nn.Module):
    """A convolution and a linear layer in half precision."""

    def __init__(self, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(4, 5)
        self.to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.relu(self.convolution(x)).mean((2, 3)))


class Masked(nn.Module):
    """Keeps as many values as are positive: the size of the answer depends on the values."""

    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0] * 2


class ScalarInput(nn.Module):
    """Takes a tensor without dimensions."""

    def forward(self, x: Tensor, gain: Tensor) -> Tensor:
        return x * gain + x.sum() * 0.5


class ListOutput(nn.Module):
    """Splits along a dynamic dimension's neighbour into a list."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return list(x.split(2, dim=1))


class SizeBranch(nn.Module):
    """Takes another path for long inputs: a size decides, not a value."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(1) > 8:
            return x[:, :8].sum(1)
        return x.sum(1) * 2


def seeded(build: Callable[..., nn.Module], *arguments: Any) -> Callable[[], nn.Module]:
    """A factory that draws the same weights every time."""

    def factory() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return build(*arguments).eval()

    return factory


def _integers(random: np.random.Generator) -> Arrays:
    return {"x": random.integers(-9, 10, (4, 6))}


def _nans(random: np.random.Generator) -> Arrays:
    x = random.standard_normal((3, 5)).astype(np.float32)
    x[0, 0], x[1, 1] = np.nan, 0.0
    return {"x": x}


def _zeros(random: np.random.Generator) -> Arrays:
    x = random.standard_normal((3, 5)).astype(np.float32)
    x[:, 1] = 0.0
    return {"x": x}


def _turned(random: np.random.Generator) -> Arrays:
    return {"x": random.standard_normal((2, 6, 4)).astype(np.float32).transpose(0, 2, 1)}


def _tokens(random: np.random.Generator) -> Arrays:
    return {"tokens": random.integers(0, 11, (2, 7))}


def _sequences(random: np.random.Generator) -> Arrays:
    return {"x": random.standard_normal((3, 6, 5)).astype(np.float32), "lengths": np.array([6, 2, 4])}


TRAPS: dict[str, Trap] = {
    "branch": Trap(Branch, ("x=float32[n,3]",), sizes={"n": 2}),
    "shape-loop": Trap(ShapeLoop, ("x=float32[n,3]",), sizes={"n": 3}),
    "while-loop": Trap(WhileLoop, ("x=float32[n,3]",), sizes={"n": 2}),
    "size-branch": Trap(SizeBranch, ("x=float32[2,n]",), sizes={"n": 5}),
    "in-place": Trap(InPlace, ("x=float32[n,4]",), sizes={"n": 2}),
    "integer-division": Trap(IntegerDivision, ("x=int64[n,6]",), _integers),
    "half": Trap(seeded(Low), ("x=float16[n,3,8,8]",), sizes={"n": 2}),
    "bfloat16": Trap(seeded(Low, torch.bfloat16), ("x=bfloat16[n,3,8,8]",), sizes={"n": 2}),
    "spectrum": Trap(Spectrum, ("x=float32[n,16]",), sizes={"n": 2}),
    "complex-output": Trap(ComplexOutput, ("x=float32[n,8]",), sizes={"n": 2}),
    "dict": Trap(seeded(DictInOut), ("batch.x=float32[n,4]", "batch.scale=float32[n,1]"), sizes={"n": 2}),
    "tuple": Trap(TupleInOut, ("pair.0=float32[n,3]", "pair.1=float32[n,3]", "bias=float32[3]"), sizes={"n": 2}),
    "optional-given": Trap(OptionalInput, ("x=float32[n,3]", "mask=float32[n,3]"), sizes={"n": 2}),
    "optional-absent": Trap(OptionalInput, ("x=float32[n,3]",), sizes={"n": 2}),
    "none-output": Trap(SomeNone, ("x=float32[n,3]",), sizes={"n": 2}),
    "state": Trap(RunningMean, ("x=float32[n,3]",), sizes={"n": 4}),
    "where-nan": Trap(WhereNan, ("x=float32[n,5]",), _nans),
    "clamp-infinity": Trap(ClampInfinity, ("x=float32[n,5]",), _zeros),
    "non-contiguous": Trap(Strides, ("x=float32[n,4,6]",), _turned),
    "tied": Trap(seeded(Tied), ("tokens=int64[n,length]",), _tokens),
    "custom-function": Trap(CustomFunction, ("x=float32[n,3]",), sizes={"n": 2}),
    "packed-rnn": Trap(seeded(PackedRnn, False), ("x=float32[n,length,5]", "lengths=int64[n]"), _sequences),
    "padded-rnn": Trap(seeded(PackedRnn, True), ("x=float32[n,length,5]", "lengths=int64[n]"), _sequences),
    "rnn": Trap(seeded(Recurrent), ("x=float32[n,length,5]",), sizes={"n": 2, "length": 7}),
    "masked": Trap(Masked, ("x=float32[n,3]",), sizes={"n": 3}),
    "scalar": Trap(ScalarInput, ("x=float32[n,3]", "gain=float32[]"), sizes={"n": 2}),
    "list-output": Trap(ListOutput, ("x=float32[n,6]",), sizes={"n": 2}),
}  # fmt: skip
