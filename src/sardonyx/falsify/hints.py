"""What the code, the graphs and the framework tell about inputs worth trying: numbers, sizes, words and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.sources import Branch

# Operators whose constants are compared with values, or cut, count or index them.
DECIDING = frozenset((
    "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Where", "Clip", "Mod", "Min", "Max", "Sub", "Div", "Range",
    "OneHot", "BitShift", "Slice", "Pad", "Gather", "TopK", "Expand", "Split",
))  # fmt: skip
# A constant with more elements is a weight, not a number that somebody wrote down.
SMALL = 8
MOST_NUMBERS = 64


@dataclass(frozen=True)
class Hints:
    """Telling values. `numbers` may matter to any input, `values` to the input of that name."""

    numbers: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    allow_nan: bool = False
    treats_nan: bool = False  # whether the code or a graph asks for NaN or infinities

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Hints:
        """What the framework says about its model."""
        return cls(
            sizes=tuple(int(size) for size in description.get("sizes") or ()),
            values=dict(description.get("values") or {}),
            words=dict(description.get("words") or {}),
            texts=dict(description.get("texts") or {}),
            tables={name: int(rows) for name, rows in (description.get("tables") or {}).items()},
            allow_nan=bool(description.get("allow_nan")),
            treats_nan=bool(description.get("allow_nan") or description.get("treats_nan")),
        )

    def numbers_for(self, name: str) -> list[float]:
        """The numbers to try in one input, those that belong to it first."""
        own = [float(value) for value in self.values.get(name, ())]
        return list(dict.fromkeys((*own, *self.numbers)))

    def with_code(self, branches: Iterable[Branch], constants: Iterable[Any]) -> Hints:
        """The hints with what conditions compare with, then with the other constants of the code."""
        compared = [number for branch in branches for number in branch.numbers]
        written = [*compared, *constants]
        strings = [value for value in written if isinstance(value, str)]
        return replace(
            self._with_numbers(value for value in written if isinstance(value, int | float)),
            words={**self.words, "": [*self.words.get("", ()), *strings]},
        )

    def with_graphs(self, models: Iterable[Model]) -> Hints:
        """The hints with the constants that decide something in the graphs, and the tables that inputs index."""
        found = self
        for model in models:
            found = found._with_numbers(graph_numbers(model.ir.graph))
            tables = {
                spec.name: spec.between[1] + 1
                for spec in model.signature.inputs
                if spec.between is not None and spec.name not in found.tables
            }
            treats = found.treats_nan or any(map(_asks_for_nan, model.ir.graph.all_nodes()))
            found = replace(found, tables={**found.tables, **tables}, treats_nan=treats)
        return found

    def _with_numbers(self, numbers: Iterable[float]) -> Hints:
        fresh = [float(n) for n in numbers if math.isfinite(n) and abs(n) < 1e30]
        merged = list(dict.fromkeys((*self.numbers, *fresh)))[:MOST_NUMBERS]
        sizes = [int(n) for n in merged if n == int(n) and 0 < n <= 4096]
        return replace(self, numbers=tuple(merged), sizes=tuple(dict.fromkeys((*self.sizes, *sizes))))


def _asks_for_nan(node: ir.Node) -> bool:
    """Whether the node tells NaN or infinities from other numbers; only NaN is not equal to itself."""
    itself = node.op_type == "Equal" and node.inputs[0] is node.inputs[1]
    return itself or node.op_type in ("IsNaN", "IsInf")


def graph_numbers(graph: ir.Graph) -> list[float]:
    """The small constants that comparisons, clips, choices and indices of a graph and its bodies read."""
    found: dict[float, None] = {}
    for node in graph.all_nodes():
        if node.op_type not in DECIDING:
            continue
        for value in node.inputs:
            for number in _small_numbers(value):
                found.setdefault(number, None)
    return list(found)


def _small_numbers(value: ir.Value | None) -> list[float]:
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    if tensor is None or not 0 < tensor.size <= SMALL:
        return []
    array = np.asarray(tensor.numpy())
    if array.dtype.kind not in "iuf":
        return []
    return [float(number) for number in array.reshape(-1) if np.isfinite(number)]
