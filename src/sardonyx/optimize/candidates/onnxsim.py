"""Gives the graph that onnxsim makes, where it is installed."""

from __future__ import annotations

import os
from pathlib import Path

NEEDS = "onnxsim"
IN_CHILD = True


def make(source: Path, target: Path) -> None:
    import onnxsim

    onnxsim.simplify(os.fspath(source), output_path=os.fspath(target))
