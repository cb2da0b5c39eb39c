"""What else could be trained of a model: all of it, what no node blocks, the last layer, or adapters; and what each takes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.training import lora, optimizers, parameters

RANK = 8


@dataclass(frozen=True)
class Alternative:
    """A choice of what to train. `memory` are the bytes of its gradients, moments and next values; `blocked`: it cannot be."""

    choice: str
    option: str
    trainable: int
    share: float
    memory: int
    blocked: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def alternatives(
    model: Model, optimizer: str, options: Mapping[str, Any], behind: Collection[str]
) -> tuple[Alternative, ...]:
    """The choices that a model has. `model` is prepared and lifted; `behind` are the parameters that no gradient reaches."""
    rule = optimizers.named(optimizer)
    kept = 2 + len(rule.remembers(optimizers.options_of(rule, options)))
    values = model.ir.graph.initializers
    weights = parameters.candidates(model)[0]
    whole = sum(_elements(values[name]) for name in weights)
    found = []
    for choice, option, counts in _choices(model, weights, behind):
        learning = sum(counts.values())
        size = sum(count * kept * _width(values[name]) for name, count in counts.items())
        blocked = option == "" and bool(behind)
        found.append(Alternative(choice, option, learning, learning / max(1, whole), size, blocked))
    return tuple(found)


def _choices(
    model: Model, weights: Sequence[str], behind: Collection[str]
) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Each choice, the option that makes it, and the numbers that learn for every weight."""
    values = model.ir.graph.initializers
    yield "every weight", "", {name: _elements(values[name]) for name in weights}
    free = [name for name in weights if name not in behind]
    if behind and free:
        yield "what no node blocks", "--freeze-blocked", {name: _elements(values[name]) for name in free}
    last = _last_layer(model, free)
    if last and len(last) < len(weights):
        words = " ".join(f"--train '{name}'" for name in last)
        yield "the last layer", words, {name: _elements(values[name]) for name in last}
    adapted = [name for name in lora.adaptable(model) if name in free]
    if adapted:
        yield (
            "adapters on every layer", f"--lora {RANK}" + (" --freeze-blocked" if behind else ""),
            {name: RANK * sum(_matrix(values[name])) for name in adapted},
        )  # fmt: skip


def _last_layer(model: Model, weights: Collection[str]) -> list[str]:
    """The weights of the last layer that multiplies, and what is added to it."""
    nodes = list(model.ir.graph)
    place = {node: index for index, node in enumerate(nodes)}
    used = {name: max(place[use.node] for use in model.ir.graph.initializers[name].uses()
                      if use.node in place) for name in weights
            if any(use.node in place for use in model.ir.graph.initializers[name].uses())}  # fmt: skip
    layers = [index for name, index in used.items() if nodes[index].op_type in lora.LAYERS]
    return [name for name, index in used.items() if layers and index >= max(layers)]


def _matrix(value: ir.Value) -> tuple[int, int]:
    """Rows and columns of a weight, as an adapter sees it."""
    assert value.shape is not None
    rows, *columns = map(int, value.shape.numpy())
    return rows, math.prod(columns)


def _elements(value: ir.Value) -> int:
    return 1 if value.shape is None else math.prod(map(int, value.shape.numpy()))


def _width(value: ir.Value) -> int:
    return 4 if value.dtype is None else int(value.dtype.itemsize)
