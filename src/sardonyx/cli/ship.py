from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import DATA, Example, Inputs, Label, Python, Trust, Weights
from sardonyx.report import Report


def ship(
    source: Annotated[str, typer.Argument(help="What to ship: any source that convert takes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The bundle's folder.")],
    data: Annotated[
        str | None,
        typer.Option(help=f"Real inputs, with labels if there are any: {DATA}."),
    ] = None,
    label: Label = None,
    skip: Annotated[
        list[str], typer.Option(metavar="STAGE", help="Leave out check, compare, optimize, quantize or bench.")
    ] = [],  # noqa: B006
    set: Annotated[
        list[str],
        typer.Option(metavar="STAGE.KEYWORD=VALUE", help="Tune a stage, as quantize.budget=2%. May be repeated."),
    ] = [],  # noqa: B006
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keywords by stage, in TOML; sardonyx.toml of this folder by default."),
    ] = None,
    input: Inputs = [],  # noqa: B006
    example: Example = None,
    weights: Weights = None,
    opset: Annotated[int | None, typer.Option(help="The opset to write.")] = None,
    route: Annotated[str | None, typer.Option(help="auto tries every route; or one by name.")] = None,
    python: Python = None,
    trust: Trust = False,
) -> Report:
    """Take a model through every stage, and write it to a folder together with the proofs and the report."""
    from sardonyx.bundle.settings import parsed

    return sardonyx.ship(
        source, output, data=data, label=label, skip=skip, settings=parsed(set), config=config,
        inputs=input, example=example, weights=weights, opset=opset, route=route, python=python, trust=trust,
    )  # fmt: skip
