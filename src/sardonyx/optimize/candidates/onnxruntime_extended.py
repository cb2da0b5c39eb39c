"""Gives the graph that onnxruntime's extended optimisations leave; it may hold operators that only onnxruntime has."""

from __future__ import annotations

from pathlib import Path

from sardonyx.optimize.candidates._runtime import write

LEVEL = "machine"
IN_CHILD = True


def make(source: Path, target: Path) -> None:
    write(source, target, "ORT_ENABLE_EXTENDED")
