from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import DATA, Label, Sizes, parsed_sizes
from sardonyx.report import Report


def view(
    model: Annotated[Path, typer.Argument(help="The ONNX model, or a bundle.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page to write, as page.html.")] = None,
    overlay: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="Colour the nodes by time, error, precision, provider or diff. May be repeated."
        ),
    ] = [],  # noqa: B006
    against: Annotated[
        Path | None, typer.Option(metavar="OTHER", help="The model that error and diff compare with.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help=f"Inputs for time and error: {DATA}."),
    ] = None,
    label: Label = None,
    size: Sizes = [],  # noqa: B006
    provider: Annotated[str, typer.Option(help="Execution provider, as cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Threads for time; all by default.")] = None,
    netron: Annotated[
        bool, typer.Option("--netron", help="Open the model in Netron, where installed, and write nothing.")
    ] = False,
) -> Report:
    """Write an interactive page of a model's graph, in one file that needs no network."""
    return sardonyx.view(
        model,
        output,
        overlays=overlay,
        against=against,
        data=data,
        label=label,
        sizes=parsed_sizes(size),
        provider=provider,
        threads=threads,
        netron=netron,
    )
