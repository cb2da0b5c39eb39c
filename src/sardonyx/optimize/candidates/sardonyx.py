"""Gives the graph that our own passes make of what onnxscript's optimizer leaves."""

from __future__ import annotations

from pathlib import Path

from sardonyx.model import Model
from sardonyx.optimize.passes._rewrite import Note


def make(source: Path, target: Path) -> list[Note]:
    from onnxscript.optimizer import optimize_ir

    from sardonyx.optimize._passes import apply

    model = Model.load(source)
    optimize_ir(model.ir)
    notes = apply(model.ir)
    model.save(target)
    return notes
