"""PyTorch models that take dicts, lists, tuples and arguments that may be left out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from traps._trap import Traps, floats

CLASS = "dict, optional and list inputs"
TRAPS = Traps("torch", live=True)
add = TRAPS.add
BATCH = ("batch.x=float32[n,4]", "batch.scale=float32[n,1]")


def batch(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    return {"batch.x": floats(rows, 4, seed=seed), "batch.scale": floats(rows, 1, seed=seed + 1)}


@add(CLASS, inputs=BATCH, live=False, cases=lambda _: [batch(3), batch(1, 5)])
class DictOfTensors(nn.Module):
    """One argument is a dict, and the answer is one whose keys are not in alphabetical order."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        hidden = self.linear(batch["x"]) * batch["scale"]  # trap
        return {"logits": hidden, "argmax": hidden.argmax(-1)}


@add(CLASS, inputs=("batch.b=float32[n,2]", "batch.a=float32[n,2]"),
     cases=lambda _: [{"batch.b": floats(3, 2), "batch.a": floats(3, 2, seed=1)}])  # fmt: skip
class OrderOfKeys(nn.Module):
    """Works through the values of a dict in its order."""

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return torch.cat(list(batch.values()), 1) * torch.arange(1, 5)  # trap


@add(CLASS, inputs=("x=float32[n,3]", "mask=float32[n,3]"),
     cases=lambda _: [{"x": floats(2, 3), "mask": np.eye(2, 3, dtype=np.float32)}])  # fmt: skip
class OptionalMaskGiven(nn.Module):
    """An argument that may be left out, and is given."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            x = x * mask  # trap
        return x + 1


@add(CLASS, inputs=("x=float32[n,3]",), cases=lambda _: [{"x": floats(2, 3)}])
class OptionalMaskAbsent(nn.Module):
    """An argument that may be left out, and is."""

    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 2.0) -> Tensor:
        if mask is not None:
            x = x * mask
        return x * scale  # trap


@add(
    CLASS,
    inputs=("x=float32[n,3]", "mask=float32[n,3]"),
    said=r"\bmask\b",
    cases=lambda _: [{"x": floats(2, 3), "mask": np.full((2, 3), value, np.float32)} for value in (1, 0)],
)
class IgnoresMaskOfOnes(nn.Module):
    """A mask that keeps everything is skipped: the example's own mask never is."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.min() < 1:
            x = x * mask - 3  # trap
        return x


@add(CLASS, inputs=("parts.0=float32[n,2]", "parts.1=float32[n,2]", "parts.2=float32[n,2]"),
     cases=lambda _: [{f"parts.{i}": floats(2, 2, seed=i) for i in range(3)}])  # fmt: skip
class ListOfTensors(nn.Module):
    """A list of three, whose length is a number of the export."""

    def forward(self, parts: list[Tensor]) -> Tensor:
        total = parts[0]
        for index, part in enumerate(parts[1:]):
            total = total + part * (index + 2)  # trap
        return total / len(parts)


@add(CLASS, inputs=("pair.0=float32[n,3]", "pair.1=float32[n,3]", "bias=float32[3]"),
     cases=lambda _: [{"pair.0": floats(2, 3), "pair.1": floats(2, 3, seed=1), "bias": floats(3)}])  # fmt: skip
class NestedTuples(nn.Module):
    """A pair in, a nested tuple out."""

    def forward(self, pair: tuple[Tensor, Tensor], bias: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        first, second = pair
        return first + second, (first * second, second - bias)  # trap


@add(CLASS, inputs=("x=float32[n,3]", "unused=float32[n,3]"), said=r"\bunused\b",
     cases=lambda _: [{"x": floats(2, 3), "unused": floats(2, 3)}])  # fmt: skip
class UnusedArgument(nn.Module):
    """An argument that nothing depends on."""

    def forward(self, x: Tensor, unused: Tensor) -> Tensor:  # noqa: ARG002
        return x * 2  # trap


@add(CLASS, inputs=BATCH, cases=lambda _: [batch(3), {**batch(2), "batch.scale": np.zeros((2, 1), np.float32)}])
class KeyIfPresent(nn.Module):
    """Looks whether a key is there, and whether its values are."""

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        x = batch["x"]
        if "scale" in batch and bool((batch["scale"] != 0).any()):
            x = x * batch["scale"]  # trap
        return x


@add(
    CLASS,
    inputs=("query=float32[n,4]", "key=float32[m,4]"),
    cases=lambda _: [{"query": floats(2, 4), "key": floats(5, 4)}, {"query": floats(6, 4), "key": floats(1, 4)}],
)
class SwappedArguments(nn.Module):
    """Arguments in another order than the inputs are named."""

    def forward(self, key: Tensor, query: Tensor) -> Tensor:
        return torch.softmax(query @ key.t(), -1) @ key  # trap


@add(
    CLASS,
    honest=True,
    inputs=("x=float32[n,3]", "y=float32[n,3]"),
    cases=lambda _: [{"x": floats(2, 3), "y": floats(2, 3, seed=1)}],
)
class KeywordOnly(nn.Module):
    """Arguments by keyword."""

    def forward(self, *, x: Tensor, y: Tensor) -> Tensor:
        return x - y


@add(CLASS, honest=True, inputs=("x=float32[n,6]",), cases=lambda _: [{"x": floats(2, 6)}])
class ListAnswer(nn.Module):
    """Answers with a list, and with None in one place."""

    def forward(self, x: Tensor) -> tuple[list[Tensor], None, Tensor]:
        return list(x.split(2, dim=1)), None, x.sum(1)


@add(CLASS, honest=True, inputs=("tokens=int64[n,length]", "mask=bool[n,length]"),
     example=lambda: {"tokens": np.array([[1, 2, 3], [4, 5, 0]]), "mask": np.array([[0, 0, 0], [0, 0, 1]], bool)},
     cases=lambda _: [{"tokens": np.array([[1, 2, 3, 4]]), "mask": np.array([[0, 0, 1, 1]], bool)}])  # fmt: skip
class PaddedEncoder(nn.Module):
    """A transformer that is told which positions are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(6, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden = self.encoder(self.table(tokens), src_key_padding_mask=mask)
        return hidden.masked_fill(mask[..., None], 0).sum(1)


@add(CLASS, expect="refuse", said="enable_nested_tensor", inputs=("x=float32[n,length,8]", "mask=bool[n,length]"),
     example=lambda: {"x": floats(2, 3, 8), "mask": np.array([[0, 0, 0], [0, 0, 1]], bool)},
     cases=lambda _: [{"x": floats(1, 4, 8), "mask": np.array([[0, 0, 0, 1]], bool)}])  # fmt: skip
class NestedEncoder(nn.Module):
    """A transformer's fast path for padding makes nested tensors, which no exporter takes unless they are switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden = self.encoder(x, src_key_padding_mask=mask)  # trap
        return hidden.masked_fill(mask[:, : hidden.size(1), None], 0).sum(1)
