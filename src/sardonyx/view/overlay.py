"""Facts about nodes that the page shows as colours. Each kind of fact is one file in `overlays`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import onnx_ir as ir

from sardonyx import registry
from sardonyx.errors import UsageError
from sardonyx.inspect.facts import Fact
from sardonyx.inspect.shapes import Walk
from sardonyx.inspect.summary import bound
from sardonyx.model import Model
from sardonyx.signature import Arrays, dtype_name

FOLDER = "sardonyx.view.overlays"

Kind = Literal["number", "word"]


@dataclass(frozen=True)
class Overlay:
    """A number or a word for some nodes, by their index. `texts` say more about single nodes, `note` about all of them.

    A scope that is closed shows what `combine` makes of the numbers inside.
    """

    name: str
    title: str
    kind: Kind
    values: Mapping[int, float | str]
    texts: Mapping[int, str] = field(default_factory=dict)
    unit: str = ""
    combine: Literal["sum", "max"] = "max"
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "title": self.title, "kind": self.kind, "unit": self.unit, "combine": self.combine,
            "note": self.note, "values": {str(index): value for index, value in self.values.items()},
            "texts": {str(index): text for index, text in self.texts.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """What overlays look at: a model without functions, the one that it is held against, and how to run both."""

    model: Model
    against: Model | None = None
    data: Any = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    provider: str = "cpu"
    threads: int | None = None
    ledger: Mapping[str, Any] | None = None

    @cached_property
    def nodes(self) -> list[ir.Node]:
        """Every node of the main graph and of the graphs inside it, each before what it contains."""
        return list(self.model.ir.graph.all_nodes())

    @cached_property
    def index(self) -> dict[ir.Node, int]:
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def facts(self) -> dict[ir.Value, Fact]:
        """What is known of every value for one set of sizes, without running."""
        shapes, known = bound(self.model.signature, self.sizes)
        return Walk(self.model.ir, shapes, known).facts

    def dtype(self, value: ir.Value | None) -> str:
        """The value's type, as float32; empty where nobody knows it."""
        if value is None:
            return ""
        stored = None if value.const_value is None else value.const_value.dtype
        fact = self.facts.get(value)
        known = stored or value.dtype or (fact.dtype if fact is not None else None)
        return "" if known is None else dtype_name(known)

    def inputs(self) -> Arrays:
        """The first batch of the data, or generated values."""
        if self.data is None:
            return self.model.signature.sample(seed=0, sizes=dict(self.sizes))
        from sardonyx.samples import Samples

        return dict(next(iter(Samples.open(self.data, self.model.signature))).inputs)


def names() -> list[str]:
    """The overlays there are."""
    return registry.names(FOLDER)


def overlay(name: str, subject: Subject) -> Overlay:
    """One overlay by its name."""
    if name not in names():
        raise UsageError(f"there is no overlay '{name}'", hint=f"the overlays are {', '.join(names())}")
    found: Overlay = registry.load(FOLDER, name).overlay(subject)
    return found


def reference(subject: Subject, name: str) -> Model:
    """The model to hold the subject against, or the error that says how to name one."""
    if subject.against is None:
        raise UsageError(f"the overlay '{name}' needs a model to compare with", hint="name it with --against OTHER")
    return subject.against
