from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import sardonyx
from sardonyx import training
from sardonyx.cli._options import DATA, Example, Inputs, Label, Python, Trust, Weights
from sardonyx.errors import UsageError
from sardonyx.report import Report

Folder = Annotated[Path, typer.Argument(help="A folder of training artifacts, as `train prepare` writes it.")]
Data = Annotated[
    str,
    typer.Option(help=f"Inputs with labels: {DATA}."),
]
Threads = Annotated[int | None, typer.Option(help="Threads; every CPU of the container by default.")]
Checkpoint = Annotated[str | None, typer.Option(help="last, best or checkpoint (the start).")]


def prepare(
    source: Annotated[str, typer.Argument(help="An ONNX model, or any source that convert takes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    loss: Annotated[
        str, typer.Option(help="cross_entropy, bce_with_logits, mse, l1, huber, kl, or an ONNX model of a loss.")
    ] = "cross_entropy",
    optimizer: Annotated[str, typer.Option(help="sgd, adam, adamw, rmsprop, adagrad or lion.")] = "adamw",
    loss_option: Annotated[
        list[str], typer.Option(metavar="NAME=VALUE", help="As label_smoothing=0.1. May be repeated.")
    ] = [],  # noqa: B006
    optimizer_option: Annotated[
        list[str], typer.Option(metavar="NAME=VALUE", help="As momentum=0.9 or weight_decay=0.01. May be repeated.")
    ] = [],  # noqa: B006
    clip_norm: Annotated[float | None, typer.Option(help="Clip the gradients to this norm.")] = None,
    train: Annotated[
        list[str], typer.Option(metavar="PATTERN", help="Train only these parameters, as head.*. May be repeated.")
    ] = [],  # noqa: B006
    freeze: Annotated[
        list[str], typer.Option(metavar="PATTERN", help="Freeze these parameters, as encoder.*. May be repeated.")
    ] = [],  # noqa: B006
    freeze_blocked: Annotated[
        bool, typer.Option("--freeze-blocked", help="Freeze what lies behind nodes that no gradient passes.")
    ] = False,
    predictions: Annotated[
        list[str], typer.Option(metavar="OUTPUT", help="The outputs that the loss takes; all by default.")
    ] = [],  # noqa: B006
    batch_norm: Annotated[
        str, typer.Option(help="Running variance as onnx (biased) or torch has it, or frozen statistics.")
    ] = "onnx",
    lora: Annotated[
        int | None, typer.Option(min=1, help="Train adapters of this rank in place of the weights.")
    ] = None,
    input: Inputs = [],  # noqa: B006
    example: Example = None,
    weights: Weights = None,
    python: Python = None,
    trust: Trust = False,
) -> Report:
    """Write the training artifacts of a model, and tell what of it can be trained."""
    return training.prepare(
        source, output, loss=loss, optimizer=optimizer, loss_options=_options(loss_option),
        optimizer_options=_options(optimizer_option), clip_norm=clip_norm, train=train or None, freeze=freeze,
        freeze_blocked=freeze_blocked, predictions=predictions or None, batch_norm=batch_norm, lora=lora, inputs=input,
        example=example, weights=weights, python=python, trust=trust,
    )  # fmt: skip


def run(
    folder: Folder,
    data: Data,
    label: Label = None,
    epochs: Annotated[int, typer.Option(min=1, help="Walks over the data, those already done included.")] = 1,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples of a batch; 32 by default.")] = None,
    lr: Annotated[float | None, typer.Option(help="The learning rate; 0.001 by default.")] = None,
    valid: Annotated[str | None, typer.Option(help="Data to validate on after every epoch.")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, linear, cosine or step.")] = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="Steps over which the rate climbs.")] = None,
    accumulate: Annotated[int | None, typer.Option(min=1, help="Batches whose gradients make one step.")] = None,
    patience: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many epochs without a better loss.")
    ] = None,
    save_every: Annotated[int | None, typer.Option(min=1, help="Also save after so many steps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the order of examples and of Dropout.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Begin again, though there is a checkpoint.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curve: .png, .svg or .pdf.")] = None,
    threads: Threads = None,
) -> Report:
    """Train a prepared folder, with checkpoints from which the run goes on exactly."""
    return sardonyx.train(
        folder, data=data, label=label, epochs=epochs, batch_size=batch_size, lr=lr, valid=valid, schedule=schedule,
        warmup=warmup, accumulate=accumulate, patience=patience, save_every=save_every, seed=seed, resume=resume, restart=restart,
        plot=plot, threads=threads,
    )  # fmt: skip


def evaluate(
    folder: Folder,
    data: Data,
    label: Label = None,
    checkpoint: Checkpoint = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples of a batch.")] = 32,
    threads: Threads = None,
) -> Report:
    """Tell the loss, and for classes the accuracy, of a checkpoint on data."""
    return training.evaluate(
        folder, data=data, label=label, checkpoint=checkpoint, batch_size=batch_size, threads=threads
    )


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The ONNX model to write.")],
    checkpoint: Checkpoint = None,
) -> Report:
    """Write the trained network as an inference model, compared with the evaluation graph."""
    return training.export(folder, output, checkpoint=checkpoint)


# A verb with verbs of its own: each is called as `sardonyx train NAME`.
train = {"prepare": prepare, "run": run, "evaluate": evaluate, "export": export}


def _options(words: list[str]) -> dict[str, Any]:
    """['momentum=0.9', 'nesterov=true'] -> {'momentum': 0.9, 'nesterov': True}."""
    found = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not name or not sign:
            raise UsageError(f"'{word}' is no option", hint="write it as momentum=0.9")
        found[name.strip()] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    """A number, a list of numbers, true or false; else the word itself."""
    if "," in text:
        return tuple(_value(part.strip()) for part in text.split(","))
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
