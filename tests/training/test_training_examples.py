"""The scripts of `make models` build artifacts that train, in the sizes that they are asked for."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sardonyx

pytestmark = pytest.mark.heavy
SCRIPTS = Path(__file__).parents[2] / "examples" / "models"


def built(script: str, folder: Path, *words: str) -> list[dict[str, object]]:
    command = [sys.executable, str(SCRIPTS / script / "compile.py"), "--output", str(folder), *words]
    subprocess.run(command, check=True, capture_output=True)
    found: list[dict[str, object]] = json.loads((folder / "shapes.json").read_text())
    return found


@pytest.mark.rest
def test_the_dense_network_takes_its_sizes(tmp_path: Path) -> None:
    shapes = built(
        "mnist", tmp_path / "run", "--inputs", "20", "--hidden", "16", "--classes", "4", "--optimizer", "adam"
    )
    assert shapes == [
        {"name": "first.weight", "shape": [16, 20]}, {"name": "first.bias", "shape": [16]},
        {"name": "second.weight", "shape": [16, 16]}, {"name": "second.bias", "shape": [16]},
        {"name": "last.weight", "shape": [4, 16]}, {"name": "last.bias", "shape": [4]},
    ]  # fmt: skip
    x = np.random.default_rng(0).normal(size=(64, 20)).astype(np.float32)
    report = sardonyx.train(tmp_path / "run", data={"x": x, "label": x[:, :4].argmax(1)}, epochs=20, lr=0.01)
    assert report["history"][-1]["loss"] < 0.5 * report["history"][0]["loss"]


def test_the_convolutional_network_has_its_published_size(tmp_path: Path) -> None:
    shapes = built("cifar10", tmp_path / "run")
    assert sum(math.prod(row["shape"]) for row in shapes) == 1_147_466  # type: ignore[arg-type]
