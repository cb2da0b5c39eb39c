"""Gives the graph that our own passes make when pairs of casts that round to half precision and back may go too."""

from __future__ import annotations

from pathlib import Path

from sardonyx.model import Model
from sardonyx.optimize.passes._rewrite import Note


def make(source: Path, target: Path) -> list[Note] | None:
    from sardonyx.optimize._passes import apply
    from sardonyx.optimize.passes.remove_cast_pairs import rounds

    model = Model.load(source)
    if not any(rounds(node) for graph in model.ir.graphs() for node in graph):
        return None
    notes = apply(model.ir, rounding=True)
    model.save(target)
    return notes
