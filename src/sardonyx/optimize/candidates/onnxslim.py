"""Gives the graph that OnnxSlim makes, where it is installed."""

from __future__ import annotations

import os
from pathlib import Path

from sardonyx.model import EXTERNAL_ABOVE, Model

NEEDS = "onnxslim"
IN_CHILD = True


def make(source: Path, target: Path) -> None:
    import onnxslim

    large = Model.load(source).weight_bytes() > EXTERNAL_ABOVE
    onnxslim.slim(os.fspath(source), os.fspath(target), save_as_external_data=large)
