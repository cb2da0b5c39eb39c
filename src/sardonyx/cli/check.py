from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.report import Report


def check(
    model: Annotated[Path, typer.Argument(help="The ONNX model.")],
    target: Annotated[
        list[str], typer.Option(help="Also answer for this target: cpu, web or mobile. May be repeated.")
    ] = [],  # noqa: B006
    ort: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Answer for this onnxruntime release instead of the installed one."),
    ] = None,
    fix: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the smallest fix here and prove it by loading.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that the trial load may take; by default more for a larger model.")
    ] = None,
) -> Report:
    """Find what is wrong with a model, and where it runs."""
    return sardonyx.check(model, targets=target, ort=ort, fix=fix, timeout=timeout)
