"""run: inputs into outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.report import Report
    from sardonyx.run.task import Task


def run(
    model: str | Path | Model,
    inputs: Mapping[str, Any] | None = None,
    *,
    data: Any = None,
    label: str | None = None,
    output: str | Path | None = None,
    provider: str = "cpu",
    threads: int | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    task: str | None = None,
    labels: str | Path | Sequence[str] | None = None,
    top: int | None = None,
    normalize: str | None = None,
    resize: str | None = None,
    channel_order: str = "rgb",
    head: str | None = None,
    score: float = 0.25,
    overlap: float = 0.45,
    embed_preprocessing: str | Path | None = None,
    engine: str = "local",
    timeout: float | None = 600,
) -> Report:
    """The outputs of the model, as arrays in `report.artifacts["outputs"]` and in the file `output` if one is named.

    `model` is an ONNX model or a bundle. `inputs` maps names to arrays, lists, files (.npy, .npz, .safetensors, .csv, .parquet,
    images), or a type with a shape to generate, as "float32[1,3,32,32]". A number fills an input that is no scalar. `data` is a
    file, a DataFrame or a dict with several inputs by name; what `label` names in it, else `label`, is no input. What neither
    gives is generated from `seed`, with dynamic dimensions sized by `sizes`, and the report says so.

    `task` "classify" or "detect" takes one picture, a file or uint8 pixels, and adds `classes` or `boxes` to the report;
    `output` may then be a picture with the boxes drawn. `normalize` is imagenet, unit (0..1), minus-one (-1..1), none or
    "mean,std"; `resize` is stretch, fit (a margin) or crop. `embed_preprocessing` is a path for the model with all of this
    inside its graph.

    A file is loaded and run in a process of its own, which is ended after `timeout` seconds.

    The `engine` "ray" scores `data`, a file or a folder of files of any length, on a Ray cluster, and writes to `output`.
    """
    from sardonyx import warm

    given = {
        "model": model, "inputs": dict(inputs or {}), "data": data, "label": label, "output": output, "provider": provider,
        "threads": threads, "sizes": dict(sizes or {}), "seed": seed, "task": task, "labels": labels, "top": top,
        "normalize": normalize, "resize": resize, "channel_order": channel_order, "head": head, "score": score,
        "overlap": overlap, "embed_preprocessing": embed_preprocessing, "timeout": timeout,
    }  # fmt: skip
    if warm.wanted(model) and engine == "local" and provider == "cpu" and warm.packable(given):
        writes = (output, embed_preprocessing)
        return warm.call("run", given, about=cast("str | Path", model), writes=writes, seconds=timeout)
    return _run(engine, **given)


def _run(
    engine: str, *, model: Any, inputs: Any, data: Any, label: str | None, output: Any, provider: str, threads: int | None,
    sizes: Any, seed: int, task: str | None, embed_preprocessing: Any, timeout: float | None, **words: Any,  # noqa: ARG001  the time is kept outside
) -> Report:  # fmt: skip
    """The report of `run`, made in this process."""
    from sardonyx.bundle_model import is_bundle, model_in
    from sardonyx.dataset import Dataset

    if is_bundle(model):
        model = model_in(cast("str | Path", model))
    Dataset.of(data, label)  # which refuses a label without data
    if engine != "local":
        from sardonyx.run.ray_score import score_only

        given = {"input": inputs, "size": sizes, "task": task, "embed-preprocessing": embed_preprocessing}
        return score_only(engine, model, data, output, label=label, provider=provider, threads=threads, unfit=given)
    from sardonyx.run.once import run_once

    asked = _asked(task, embed_preprocessing, **words)
    return run_once(
        model, inputs or {}, data=data, label=label, output=output, provider=provider, threads=threads, sizes=dict(sizes or {}),
        seed=seed, asked=asked, embed=embed_preprocessing,
    )  # fmt: skip


def _asked(task: str | None, embed: str | Path | None, **words: Any) -> Task | None:
    """The task, or None; words that belong to a task need one."""
    from sardonyx.errors import UsageError
    from sardonyx.run.task import Task

    if task is not None:
        return Task(task, **words)
    defaults = {field.name: field.default for field in fields(Task)}
    lone = [name for name, value in {**words, "embed_preprocessing": embed}.items() if value != defaults.get(name)]
    if lone:
        raise UsageError(
            f"--{lone[0].replace('_', '-')} belongs to a task", hint="add --task classify or --task detect"
        )
    return None
