"""PyTorch models with tables: embeddings, codebooks, buckets and dictionaries."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from traps._trap import Traps, floats

CLASS = "tables and vocabularies"
TRAPS = Traps(
    "torch",
    live=True,
    inputs=("ids=int64[n,3]",),
    example=lambda: {"ids": np.array([[0, 1, 2], [2, 1, 0]])},
    cases=lambda _: [{"ids": np.array([[0, 1, 2]])}, {"ids": np.array([[19, 18, 17], [9, 10, 11], [5, 7, 13]])}],
)
add = TRAPS.add


@add(CLASS, live=False)
class RescaledRows(nn.Module):
    """`max_norm` rescales the rows that are looked up, in place: an export has what the probes happened to touch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6, max_norm=1.0)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # trap


@add(CLASS)
class RescaledBags(nn.Module):
    """The same for bags of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(20, 6, max_norm=0.5, mode="sum")

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # trap


@add(CLASS, inputs=("id=int64[]",), example=lambda: {"id": np.array(3)}, said=r"\bid\b",
     cases=lambda _: [{"id": np.array(number)} for number in (3, 7, 11, 4)])  # fmt: skip
class DictionaryOfPrices(nn.Module):
    """A dictionary in Python, asked with a number: a trace keeps one entry."""

    PRICES = {3: 1.5, 7: 2.5, 11: 9.0}  # noqa: RUF012

    def forward(self, id: Tensor) -> Tensor:
        return torch.ones(2) * self.PRICES.get(int(id), 0.0) + 0 * id  # trap


@add(CLASS, inputs=("id=int64[]",), example=lambda: {"id": np.array(0)}, said=r"\bid\b",
     cases=lambda _: [{"id": np.array(number)} for number in (0, 1, 2, 3, -1)])  # fmt: skip
class ListOfVectors(nn.Module):
    """A list of parameters, indexed by a number."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.ParameterList(torch.randn(3) for _ in range(4))

    def forward(self, id: Tensor) -> Tensor:
        return self.rows[int(id)] * 2  # trap


@add(CLASS)
class ForbiddenWords(nn.Module):
    """One word of the vocabulary silences the row."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, ids: Tensor) -> Tensor:
        found = self.table(ids).sum(1)
        if (ids == 13).any():
            found = found.clone()
            found[(ids == 13).any(1)] = 0.0  # trap
        return found


@add(CLASS, cases=lambda _: [{"ids": np.array([[0, 1, 2]])}, {"ids": np.array([[-1, -20, 19], [-5, 7, 13]])}])
class NegativeRows(nn.Module):
    """Advanced indexing counts negative numbers from the end."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(20, 4))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids]  # trap


@add(CLASS, inputs=("x=float32[n,2]",), example=None,
     cases=lambda _: [{"x": np.array([[-5, -1], [0, 0.5], [1, 2], [3, 99]], np.float32)}])  # fmt: skip
class Buckets(nn.Module):
    """Values on a boundary belong to one side."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("boundaries", torch.tensor([-1.0, 0.0, 0.5, 2.0, 3.0]))
        self.table = nn.Embedding(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.table(torch.bucketize(x, self.boundaries, right=True)).sum(1)  # trap


@add(CLASS, cases=lambda _: [{"ids": np.array([[0, 0, 0]])}, {"ids": np.array([[1, 1, 2], [3, 3, 3], [19, 0, 19]])}])
class CountsWords(nn.Module):
    """A bag of words by scatter: a word that comes twice counts twice."""

    def forward(self, ids: Tensor) -> Tensor:
        counts = torch.zeros(ids.size(0), 20)
        return counts.scatter_add(1, ids, torch.ones(ids.size(0), 3))  # trap


@add(CLASS, cases=lambda _: [{"ids": np.array([[0, 0, 1]])}, {"ids": np.array([[1, 1, 1], [2, 3, 3], [19, 0, 19]])}])
class LastWordWins(nn.Module):
    """Writes of repeated indices: by the framework's own order the last stays."""

    def forward(self, ids: Tensor) -> Tensor:
        board = torch.zeros(ids.size(0), 20)
        for column in range(3):
            board = board.scatter(1, ids[:, column : column + 1], float(column + 1))  # trap
        return board


@add(CLASS, honest=True)
class PaddedEmbedding(nn.Module):
    """A row of zeros for padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6, padding_idx=0)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).sum(1) / (ids != 0).sum(1, keepdim=True).clamp(min=1)


@add(CLASS, honest=True)
class OneHotWords(nn.Module):
    """The table as a matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Linear(20, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(functional.one_hot(ids, 20).float())


@add(
    CLASS,
    inputs=("x=float32[n,4]",),
    example=None,
    honest=True,
    cases=lambda _: [{"x": floats(5, 4)}, {"x": floats(5, 4, scale=9)}],
)
class Codebook(nn.Module):
    """The nearest of twelve vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(12, 4))

    def forward(self, x: Tensor) -> Tensor:
        apart = (x[:, None, :] - self.codes[None]).pow(2).sum(-1)
        return self.codes[apart.argmin(1)]
