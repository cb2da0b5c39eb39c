"""Gives the graph that our own passes make of the input itself, where onnxscript's optimizer fails or is wrong."""

from __future__ import annotations

from pathlib import Path

from sardonyx.model import Model
from sardonyx.optimize.passes._rewrite import Note

INSTEAD_OF = "sardonyx"


def make(source: Path, target: Path) -> list[Note]:
    from sardonyx.optimize._passes import apply

    model = Model.load(source)
    notes = apply(model.ir)
    model.save(target)
    return notes
