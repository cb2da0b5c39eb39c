from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.report import Report


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to ship to.")] = Path("sardonyx-demo"),
    epochs: Annotated[int, typer.Option(help="Passes over the training digits.")] = 6,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
) -> Report:
    """Train a small CNN on handwritten digits, ship it, and show what each stage found."""
    return sardonyx.demo(output, epochs=epochs, seed=seed)
