from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import Example, Inputs, Python, Trust, Weights
from sardonyx.report import Report


def ship(
    source: Annotated[str, typer.Argument(help="What to ship: any source that convert takes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The bundle's folder.")],
    data: Annotated[
        str | None,
        typer.Option(help="Real inputs to compare on: .npz .npy .safetensors, a folder of images, or module:callable."),
    ] = None,
    input: Inputs = [],  # noqa: B006
    example: Example = None,
    weights: Weights = None,
    opset: Annotated[int | None, typer.Option(help="The opset to write.")] = None,
    route: Annotated[str, typer.Option(help="auto tries every route; or one by name.")] = "auto",
    python: Python = None,
    trust: Trust = False,
) -> Report:
    """Convert, check, compare and run a model, and write it to a folder together with the proof."""
    return sardonyx.ship(
        source,
        output,
        data=data,
        inputs=input,
        example=example,
        weights=weights,
        opset=opset,
        route=route,
        python=python,
        trust=trust,
    )
