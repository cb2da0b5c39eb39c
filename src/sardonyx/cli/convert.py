from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import Atol, Example, Inputs, Label, Python, Rtol, Trust, Weights
from sardonyx.report import Report


def convert(
    source: Annotated[
        str,
        typer.Argument(
            help="file.py:factory, package.module:factory, or a model file or folder: .pt2 .pt .keras .h5 .tflite SavedModel .pb "
            ".json .ubj .txt .cbm .joblib .pkl .onnx"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the ONNX model.")],
    input: Inputs = [],  # noqa: B006
    example: Example = None,
    weights: Weights = None,
    opset: Annotated[
        int | None, typer.Option(help="The opset to write; 18 or what the exporter gives by default.")
    ] = None,
    route: Annotated[
        str, typer.Option(help="auto tries every route; or one by name, as dynamo, script, trace.")
    ] = "auto",
    input_names: Annotated[str, typer.Option(metavar="A,B", help="Names for the inputs.")] = "",
    output_names: Annotated[str, typer.Option(metavar="A,B", help="Names for the outputs.")] = "",
    training: Annotated[bool, typer.Option("--training", help="Keep Dropout and BatchNorm trainable.")] = False,
    python: Python = None,
    trust: Trust = False,
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: Annotated[float, typer.Option(help="Seconds that each route may take.")] = 300,
    data: Annotated[
        str | None, typer.Option(help="Inputs of your own to compare on, besides those that the search makes up.")
    ] = None,
    label: Label = None,
    allow_random: Annotated[
        bool, typer.Option("--allow-random", help="Compare outputs that are random by their mean and spread.")
    ] = False,
    first_call: Annotated[
        bool, typer.Option("--first-call", help="Of a model with a state, export what the first call answers.")
    ] = False,
    state: Annotated[
        bool, typer.Option("--state", help="Of a PyTorch model with a state, make it inputs and outputs of the export.")
    ] = False,
    search: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long to ask the original in the search; 8 by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
) -> Report:
    """Convert a trained model to ONNX by every route there is, and keep the best on which no difference is found."""
    return sardonyx.convert(
        source, output, inputs=input, example=example, weights=weights, opset=opset, route=route,
        input_names=_names(input_names), output_names=_names(output_names), training=training, python=python, trust=trust,
        rtol=rtol, atol=atol, timeout=timeout, data=data, label=label, allow_random=allow_random, first_call=first_call,
        state=state, search=search, seed=seed,
    )  # fmt: skip


def _names(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]
