"""PyTorch models whose inputs come in dicts, lists and structures."""

import dataclasses
from typing import NamedTuple, TypedDict

from torch import Tensor, nn


class Pair(NamedTuple):
    x: Tensor
    scale: Tensor


class Entries(TypedDict):
    x: Tensor
    scale: Tensor


@dataclasses.dataclass
class Batch:
    x: Tensor
    scale: Tensor


class FromDict(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["x"] * batch["scale"]


class FromDictAndMore(nn.Module):
    def forward(self, batch: dict[str, Tensor], gain: Tensor) -> Tensor:
        return batch["x"] * batch["scale"] + gain


class FromUnknown(nn.Module):
    def forward(self, batch):
        return batch["x"] * batch["scale"]


class FromAnything(nn.Module):
    def forward(self, batch):
        return self.multiply(batch)

    def multiply(self, entries):
        return entries["x"] * entries["scale"]


class FromEntries(nn.Module):
    def forward(self, batch: Entries):
        return batch["x"] * batch["scale"]


class FromPair(nn.Module):
    def forward(self, batch: Pair):
        return batch.x * batch.scale


class FromBatch(nn.Module):
    def forward(self, batch: Batch):
        return batch.x * batch.scale


class MaybeScaled(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        if "scale" in batch:
            return batch["x"] * batch["scale"]
        return batch["x"] * 2


class FromList(nn.Module):
    def forward(self, xs: list[Tensor]) -> Tensor:
        return xs[0] * xs[1]


class FromMaybeList(nn.Module):
    def forward(self, x: Tensor, more: list[Tensor] | None = None) -> Tensor:
        if more is None:
            return x
        return x * more[0]


class FromListInDict(nn.Module):
    def forward(self, batch: dict[str, list[Tensor]]) -> Tensor:
        return batch["all"][0] * batch["all"][1]


class FromDictInDict(nn.Module):
    def forward(self, batch):
        return batch["inner"]["x"] * batch["inner"]["scale"]


class FromNumbers(nn.Module):
    def forward(self, levels: dict[int, Tensor]) -> Tensor:
        return levels[0] * levels[1]
