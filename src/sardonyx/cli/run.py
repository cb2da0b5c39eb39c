from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import Sizes, parsed_sizes
from sardonyx.errors import UsageError
from sardonyx.report import Report


def run(
    model: Annotated[Path, typer.Argument(help="The ONNX model.")],
    input: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="An input: a file (.npy, .npz, .safetensors, an image), a number or a list, as sr=16000 or x=[1,2,3], "
            "or a shape to generate, as x=float32[1,3,32,32]. A file that exists comes first. May be repeated.",
        ),
    ] = [],  # noqa: B006
    data: Annotated[
        Path | None,
        typer.Option(help="Inputs in one file, .npz, .safetensors or .npy, in arrays named like the inputs."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz.")] = None,
    provider: Annotated[str, typer.Option(help="Execution provider, as cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Threads; as many as the container has by default.")] = None,
    size: Sizes = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Seed of the inputs that are generated.")] = 0,
) -> Report:
    """Run a model once and show its outputs. Inputs that are not given are generated."""
    return sardonyx.run(
        model,
        _given(input),
        data=data,
        output=output,
        provider=provider,
        threads=threads,
        sizes=parsed_sizes(size),
        seed=seed,
    )


def _given(words: list[str]) -> dict[str, str]:
    """['x=a.npy'] -> {'x': 'a.npy'}."""
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise UsageError(f"--input {word} has no name", hint="write it as --input NAME=FILE")
        if name in given:
            raise UsageError(f"--input gives {name} twice", hint="give it once")
        given[name] = value
    return given
