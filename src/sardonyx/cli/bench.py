from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import DATA, Inputs, Label, Python, Sizes, Trust, Weights, parsed_sizes
from sardonyx.errors import UsageError
from sardonyx.report import Report


def bench(
    variants: Annotated[
        list[str],
        typer.Argument(
            help="Models to measure, the first being the one to compare with: an ONNX file or bundle, any source that "
            "convert takes, openvino:model.onnx, torch-compile:file.py:factory. NAME=MODEL names one."
        ),
    ],
    threads: Annotated[int | None, typer.Option(help="Threads; as many as the container has by default.")] = None,
    batch: Annotated[str, typer.Option(metavar="N,N", help="Batch sizes, as 1,8,32.")] = "",
    seconds: Annotated[
        float,
        typer.Option(
            help="Measure each variant at each batch size for at most so many seconds; half of it where the verdict is clear."
        ),
    ] = 4.0,
    provider: Annotated[str, typer.Option(help="Execution provider of ONNX models, as cpu or cuda.")] = "cpu",
    data: Annotated[
        str | None,
        typer.Option(help=f"Inputs: {DATA}. Its first batch is measured; with labels the models are judged too."),
    ] = None,
    label: Label = None,
    input: Inputs = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw latencies and ratios to this .png, .svg or .pdf.")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also show where the time of ONNX models goes, by node.")
    ] = False,
    cold: Annotated[
        bool, typer.Option("--cold/--no-cold", help="Also time a start in a fresh process, and see its memory.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the inputs that are generated and of the order of turns.")] = 0,
    weights: Weights = None,
    python: Python = None,
    trust: Trust = False,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a variant may take to open, and to give its first answer.")
    ] = 300,
) -> Report:
    """Measure variants side by side and tell which is faster, with an interval."""
    return sardonyx.bench(
        *variants, threads=threads, batch=_batches(batch), seconds=seconds, provider=provider, data=data, label=label,
        inputs=input, sizes=parsed_sizes(size), plot=plot, profile=profile, cold=cold, seed=seed, weights=weights, python=python,
        trust=trust, timeout=timeout,
    )  # fmt: skip


def _batches(text: str) -> list[int]:
    """'1,8,32' -> [1, 8, 32]."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    wrong = [word for word in words if not word.isdecimal() or int(word) < 1]
    if wrong:
        raise UsageError(
            f"--batch {text} holds '{wrong[0]}', which is no batch size", hint="write it as --batch 1,8,32"
        )
    return list(dict.fromkeys(map(int, words)))
