from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.cli._options import Label, Sizes, parsed_sizes
from sardonyx.errors import UsageError
from sardonyx.report import Report

Engine = Annotated[
    str,
    typer.Option(help="local, or ray: score --data, a file or a folder of files, on a Ray cluster and write to -o."),
]

Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds that it may take before its process is ended.")]
Task = Annotated[str | None, typer.Option(help="classify: what a picture shows; detect: what is where in it.")]
Labels = Annotated[
    Path | None, typer.Option(help="Names of the classes: one a line, or a JSON list. Default: the model's own.")
]
Top = Annotated[int | None, typer.Option(help="Classes or boxes to show at most; 5 classes or 100 boxes by default.")]
Normalize = Annotated[
    str | None,
    typer.Option(
        help="Pixels become: unit (0..1, the default for floats), imagenet, minus-one (-1..1), none (0..255), "
        "or mean,std on the scale of 0..1."
    ),
]
Resize = Annotated[
    str | None,
    typer.Option(help="stretch; fit: with a margin, the default of detect; crop: the middle, the default of classify."),
]
ChannelOrder = Annotated[str, typer.Option(help="rgb or bgr.")]
Head = Annotated[
    str | None,
    typer.Option(
        help="The detector's kind: yolov5, yolov8, yolox, end2end, ssd, tfssd, scored, gfl. Found by default."
    ),
]
Score = Annotated[float, typer.Option(help="Boxes above this score are shown.")]
Overlap = Annotated[
    float, typer.Option(help="Of boxes of one class that overlap more than this share, the best is shown.")
]
Embed = Annotated[
    Path | None,
    typer.Option(metavar="OUT.onnx", help="Write a model that takes the picture itself and gives the answer."),
]


def run(
    model: Annotated[Path, typer.Argument(help="The ONNX model, or a bundle.")],
    input: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="An input: a file (.npy, .npz, .safetensors, .csv, .parquet, an image), a number or a list, as sr=16000 or "
            "x=[1,2,3], or a shape to generate, as x=float32[1,3,32,32]. A file that exists comes first. May be repeated.",
        ),
    ] = [],  # noqa: B006
    data: Annotated[
        Path | None,
        typer.Option(
            help="Inputs in one file: .npz, .safetensors or .npy with arrays named like the inputs, or a table, .csv or .parquet."
        ),
    ] = None,
    label: Label = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the outputs to this .npz, or the boxes to this picture."),
    ] = None,
    provider: Annotated[str, typer.Option(help="Execution provider, as cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Threads; as many as the container has by default.")] = None,
    size: Sizes = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Seed of the inputs that are generated.")] = 0,
    task: Task = None,
    labels: Labels = None,
    top: Top = None,
    normalize: Normalize = None,
    resize: Resize = None,
    channel_order: ChannelOrder = "rgb",
    head: Head = None,
    score: Score = 0.25,
    overlap: Overlap = 0.45,
    embed_preprocessing: Embed = None,
    engine: Engine = "local",
    timeout: Timeout = 600,
) -> Report:
    """Run a model once and show its outputs, or with --task the answer for a picture. Inputs not given are generated."""
    return sardonyx.run(
        model, _given(input), data=data, label=label, output=output, provider=provider, threads=threads,
        sizes=parsed_sizes(size), seed=seed, task=task, labels=labels, top=top, normalize=normalize, resize=resize,
        channel_order=channel_order, head=head, score=score, overlap=overlap, embed_preprocessing=embed_preprocessing,
        engine=engine, timeout=timeout,
    )  # fmt: skip


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
