"""Gives the graph that all of onnxruntime's optimisations leave, laid out for this machine's CPU."""

from __future__ import annotations

from pathlib import Path

from sardonyx.optimize.candidates._runtime import write

LEVEL = "machine"
IN_CHILD = True


def make(source: Path, target: Path) -> None:
    write(source, target, "ORT_ENABLE_ALL")
