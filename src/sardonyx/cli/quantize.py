from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import DATA, Label
from sardonyx.report import Report


def quantize(
    model: Annotated[Path, typer.Argument(help="The float ONNX model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    data: Annotated[
        str,
        typer.Option(help=f"Real inputs, with labels if there are any: {DATA}."),
    ],
    label: Label = None,
    metric: Annotated[
        str, typer.Option(help="accuracy, top5, f1, mae, rmse, cosine, agreement (with float) or module:callable.")
    ] = "auto",
    budget: Annotated[str, typer.Option(help="What may be lost: 1% of the metric, or 0.01 in its own unit.")] = "1%",
    scheme: Annotated[str, typer.Option(help="auto tries every scheme; or one by name.")] = "auto",
    calibrator: Annotated[str, typer.Option(help="minmax, percentile, entropy or mse; auto tries them.")] = "auto",
    time: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long it may take in all; the search stops then.")
    ] = 120,
    batch: Annotated[int, typer.Option(min=1, help="Examples of a call when speed is measured.")] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads; every CPU of the container by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A picture of everything tried: .png, .svg or .pdf.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split into calibration and held-out data.")] = 0,
) -> Report:
    """Write INT8 (or fp16, int4) where it keeps the metric and is faster here; else the float model and the reason."""
    return sardonyx.quantize(
        model, output, data=data, label=label, metric=metric, budget=budget, scheme=scheme, calibrator=calibrator, time=time,
        batch=batch, threads=threads, plot=plot, seed=seed,
    )  # fmt: skip
