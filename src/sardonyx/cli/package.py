from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx import registry
from sardonyx.report import Report


def package(
    model: Annotated[Path, typer.Argument(help="The ONNX model, or a bundle that sardonyx ship wrote.")],
    target: Annotated[str, typer.Option(help=f"What to package for: {', '.join(registry.names('sardonyx.package'))}.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    name: Annotated[
        str | None, typer.Option(help="The model's name where it is served; that of its file by default.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="The container image that kserve runs; NAME:1 by default.")] = None,
    storage_uri: Annotated[
        str | None,
        typer.Option(
            "--storage-uri", metavar="URI", help="Where KServe finds the folder models/, as s3://bucket/models."
        ),
    ] = None,
    max_batch: Annotated[int | None, typer.Option(help="The most rows that Triton puts into a run.")] = None,
) -> Report:
    """Write a folder that can be deployed, and check it."""
    return sardonyx.package(
        model, output, target=target, name=name, image=image, storage_uri=storage_uri, max_batch=max_batch
    )
