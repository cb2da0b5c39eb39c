"""Gives the graph that onnxscript's optimizer makes."""

from __future__ import annotations

from pathlib import Path

from sardonyx.model import Model
from sardonyx.optimize.passes._rewrite import Note


def make(source: Path, target: Path) -> list[Note]:
    from onnxscript.optimizer import optimize_ir

    model = Model.load(source)
    optimize_ir(model.ir)
    model.save(target)
    return []
