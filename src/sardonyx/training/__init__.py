"""Train further, anywhere: artifacts of standard operators, with the names that onnxruntime-training's users know.

`train` runs a prepared folder; `prepare`, `evaluate` and `export` are its companions. `artifacts`, `api` and `onnxblock` are
onnxruntime-training's modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.report import Report


def prepare(
    source: Any,
    output: str | Path,
    *,
    loss: Any = "cross_entropy",
    optimizer: str = "adamw",
    loss_options: Mapping[str, Any] | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    groups: Sequence[tuple[Sequence[str], Mapping[str, Any]]] = (),
    clip_norm: float | None = None,
    train: Sequence[str] | None = None,
    freeze: Sequence[str] = (),
    freeze_blocked: bool = False,
    predictions: Sequence[str] | None = None,
    batch_norm: str = "onnx",
    lora: int | None = None,
    inputs: Sequence[str] = (),
    example: Any = None,
    weights: str | Path | None = None,
    python: str | Path | None = None,
    trust: bool = False,
) -> Report:
    """Writes a folder of training artifacts for a model, and tells what of it can be trained.

    `source` is an ONNX model or anything that `convert` takes. `loss` is a name or an ONNX model. `train` and `freeze` are names
    of parameters or patterns such as `encoder.*`. Nodes that no gradient passes make the verdict `blocked`, unless
    `freeze_blocked` freezes what lies behind them. `groups` are patterns and the options that differ for them. `lora` is the
    rank of adapters that are trained in place of the weights.
    """
    from sardonyx.training.preparing import Request, prepare_folder

    request = Request(
        loss=loss, optimizer=optimizer, loss_options=dict(loss_options or {}), optimizer_options=dict(optimizer_options or {}),
        groups=tuple((tuple(patterns), dict(options)) for patterns, options in groups), clip_norm=clip_norm,
        train=None if train is None else tuple(train), freeze=tuple(freeze), freeze_blocked=freeze_blocked,
        predictions=None if predictions is None else tuple(predictions), batch_norm=batch_norm, lora=lora,
    )  # fmt: skip
    opening = {"inputs": tuple(inputs), "example": example, "weights": weights, "python": python, "trust": trust}
    return prepare_folder(source, Path(output), request, opening)


def train(
    folder: str | Path,
    *,
    data: Any,
    label: str | None = None,
    epochs: int = 1,
    batch_size: int | None = None,
    lr: float | None = None,
    valid: Any = None,
    schedule: str | None = None,
    warmup: int | None = None,
    accumulate: int | None = None,
    patience: int | None = None,
    save_every: int | None = None,
    seed: int | None = None,
    resume: bool = False,
    restart: bool = False,
    plot: str | Path | None = None,
    threads: int | None = None,
) -> Report:
    """Trains a prepared folder, and leaves the checkpoints `last` and `best` in it.

    `data` and `valid` are arrays or tables with labels in `label` or where `label` says, files of them, a folder of images, or
    a function that yields batches. `resume` goes on from `last` as if the run had never ended, with its options where none are
    given; `restart` begins anew where there is one. `patience` epochs without a better validation loss end the run.
    """
    from sardonyx.dataset import Dataset
    from sardonyx.training.running import train_folder

    options = {
        "batch_size": batch_size, "lr": lr, "schedule": schedule, "warmup": warmup, "accumulate": accumulate,
        "patience": patience, "save_every": save_every, "seed": seed,
    }  # fmt: skip
    return train_folder(
        Path(folder), data=Dataset.of(data, label), valid=None if valid is None else Dataset.of(valid, label),
        epochs=epochs, options=options, resume=resume, restart=restart, plot=None if plot is None else Path(plot),
        threads=threads,
    )  # fmt: skip


def evaluate(
    folder: str | Path,
    *,
    data: Any,
    label: str | None = None,
    checkpoint: str | None = None,
    batch_size: int = 32,
    threads: int | None = None,
) -> Report:
    """The loss, and for classes the accuracy, of a folder on data, as `train` takes it.

    `checkpoint` is `last` (default), `best` or `checkpoint`, the start.
    """
    from sardonyx.dataset import Dataset
    from sardonyx.training.running import evaluate_folder

    return evaluate_folder(
        Path(folder), data=Dataset.of(data, label), checkpoint=checkpoint, batch_size=batch_size, threads=threads
    )


def export(
    folder: str | Path, output: str | Path, *, checkpoint: str | None = None, outputs: Sequence[str] | None = None
) -> Report:
    """Writes the trained network as an inference model, and compares it with the evaluation graph.

    `checkpoint` is `best` (default, where there is one), `last`, or `checkpoint`, the start.
    """
    from sardonyx.training.running import export_folder

    return export_folder(Path(folder), Path(output), checkpoint=checkpoint, outputs=outputs)
