"""One candidate of the tournament: how it was made, what it is, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sardonyx import external
from sardonyx.bench.ratio import Ratio
from sardonyx.model import Model
from sardonyx.optimize.passes._rewrite import Note
from sardonyx.proto import read_proto

INPUT = "input"
# What is kept of what an optimiser says when it fails.
WORDS = 200


@dataclass
class Entry:
    """A candidate. `verdict` is `winner`, `not-chosen`, `slower`, `wrong`, `refused`, `not-installed` or `not-tried`.

    `max_error` and `tolerance` are those of the element that used most of its tolerance. `level` is how far onnxruntime may
    change its graph, where its answers are wrong by default.
    """

    name: str
    verdict: str = "not-chosen"
    reason: str = ""
    path: Path | None = None
    portable: bool = True
    nodes: int | None = None
    bytes: int | None = None
    max_error: float | None = None
    tolerance: float | None = None
    speedup: Ratio | None = None
    seconds: float = 0.0
    notes: list[Note] = field(default_factory=list)
    level: str | None = None

    @property
    def standing(self) -> bool:
        return self.verdict == "not-chosen" and self.path is not None

    def out(self, verdict: str, reason: str) -> Entry:
        """Leaves the tournament."""
        self.verdict, self.reason = verdict, reason if len(reason) <= WORDS else reason[: WORDS - 1] + "…"
        return self

    def measured_file(self) -> Entry:
        """With the number of nodes and bytes of what lies at its path."""
        assert self.path is not None, "only a candidate that was made has a file"
        self.nodes, self.bytes = count_nodes(Model.load(self.path)), file_bytes(self.path)
        return self

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "verdict": self.verdict, "reason": self.reason, "portable": self.portable,
            "nodes": self.nodes, "bytes": self.bytes, "max_error": self.max_error,
            "tolerance": self.tolerance, "speedup": None if self.speedup is None else self.speedup.to_dict(),
            "seconds": self.seconds,
        }  # fmt: skip


def count_nodes(model: Model) -> int:
    """The nodes of all graphs."""
    return sum(len(graph) for graph in model.ir.graphs())


def file_bytes(path: Path) -> int:
    """The size of a model's file and of the files that it keeps weights in."""
    outside = {entry.location for entry in external.entries(read_proto(path))}
    return path.stat().st_size + sum((path.parent / name).stat().st_size for name in outside)
