"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sardonyx.errors import UsageError

Sizes = Annotated[
    list[str],
    typer.Option("--size", metavar="DIM=N", help="The size of a dynamic dimension, as batch=8. May be repeated."),
]
Inputs = Annotated[
    list[str],
    typer.Option(
        "--input", metavar="SPEC", help="An input, as x=float32[batch,3,32,32]; a named dimension is dynamic."
    ),
]
Example = Annotated[
    Path | None,
    typer.Option(
        "--example",
        metavar="FILE",
        help="Example values, .npz, .safetensors, .csv or .parquet, with arrays or columns named like the inputs.",
    ),
]
# What --data takes, for the help of every verb that has it.
DATA = ".npz .npy .safetensors .csv .parquet, a folder of images, or module:callable"
Label = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="NAME", help="The array or column of --data that holds the labels: label by default."
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option("--weights", metavar="FILE", help="Weights for a factory: a state dict, .safetensors or .pth."),
]
Python = Annotated[
    Path | None,
    typer.Option("--python", metavar="PATH", help="Open the source with this interpreter, which has its framework."),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Open pickles. They run code: only for files that you made yourself.")
]
Rtol = Annotated[float | None, typer.Option("--rtol", help="Relative tolerance to add to the measured one.")]
Atol = Annotated[float | None, typer.Option("--atol", help="Absolute tolerance to add to the measured one.")]


def parsed_sizes(words: Sequence[str]) -> dict[str, int]:
    """['batch=8'] -> {'batch': 8}."""
    sizes = {}
    for word in words:
        name, _, number = word.partition("=")
        if not name or not number.isdecimal():
            raise UsageError(f"--size {word} does not name a dimension and a size", hint="write it as --size batch=8")
        sizes[name] = int(number)
    return sizes
