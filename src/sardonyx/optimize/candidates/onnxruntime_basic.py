"""Gives the graph that onnxruntime's basic optimisations leave, in standard operators."""

from __future__ import annotations

from pathlib import Path

from sardonyx.optimize.candidates._runtime import write

LEVEL = "portable"
IN_CHILD = True


def make(source: Path, target: Path) -> None:
    write(source, target, "ORT_ENABLE_BASIC")
