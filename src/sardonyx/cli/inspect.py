from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import Sizes, parsed_sizes
from sardonyx.report import Report


def inspect(
    model: Annotated[Path, typer.Argument(help="The ONNX model.")],
    size: Sizes = [],  # noqa: B006
    top: Annotated[int, typer.Option(help="How many of the biggest tensors to list.")] = 10,
    graph: Annotated[
        bool, typer.Option("--graph", help="Show the graph as text, a line for each node, instead of the tables.")
    ] = False,
) -> Report:
    """Show what a model is made of and what it costs."""
    return sardonyx.inspect(model, sizes=parsed_sizes(size), top=top, graph=graph)
