"""From a model to a folder of artifacts, with a report of what can be trained."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import lock, progress
from sardonyx.errors import InputError, OutputError, SardonyxError, UsageError
from sardonyx.files import replacing_folder, temporary_folder
from sardonyx.gradient.engine import Blocker, blockers
from sardonyx.gradient.prepare import prepared
from sardonyx.model import Model
from sardonyx.report import Finding, Report, Table, human_bytes
from sardonyx.training import parameters
from sardonyx.training.advice import advice
from sardonyx.training.alternatives import Alternative, alternatives
from sardonyx.training.artifacts import _attach, write
from sardonyx.training.batches import DEFAULT_BATCH
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.feeding import signature
from sardonyx.training.forecast import Forecast, foresee, sizes_for
from sardonyx.training.graphs import Graphs, Rule, assemble
from sardonyx.training.loop import LAST
from sardonyx.training.manifest import MANIFEST, Manifest, Parameter
from sardonyx.training.stepper import FusedStep

CODES = {
    "blocked": "No gradient passes this node, so what lies behind it cannot be trained.",
    "frozen": "These parameters keep their values.",
    "not-timed": "The artifacts were written, but a trial step on generated data failed.",
}
BATCH_NORMS = ("onnx", "torch", "frozen")
_TRIALS = 3


@dataclass(frozen=True)
class Request:
    """What is asked of `prepare`, in its own words."""

    loss: Any
    optimizer: str
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()
    clip_norm: float | None = None
    train: tuple[str, ...] | None = None
    freeze: tuple[str, ...] = ()
    freeze_blocked: bool = False
    predictions: tuple[str, ...] | None = None
    batch_norm: str = "onnx"
    lora: int | None = None


@dataclass(frozen=True)
class Found:
    """All that the report tells of a folder that was prepared."""

    graphs: Graphs
    stuck: list[Blocker]
    choices: tuple[Alternative, ...]
    forecast: Forecast
    seconds: float | None
    trouble: str


def prepare_folder(source: Any, output: Path, request: Request, opening: Mapping[str, Any]) -> Report:
    """Writes the artifacts, or gives the verdict `blocked` and writes nothing."""
    if request.batch_norm not in BATCH_NORMS:
        raise UsageError(f"--batch-norm {request.batch_norm} is not known", hint=f"choose {', '.join(BATCH_NORMS)}")
    if (output / LAST).exists():
        raise OutputError(f"{output} holds a trained run", hint="name a new folder, or remove this one first")
    with progress.task("open the model"):
        model = opened(source, opening)
    work = prepared(model)
    parameters.lift(work)
    stuck = _blocking(work, request)
    behind = {name for blocker in stuck for name in blocker.behind}
    choices = alternatives(work, request.optimizer, request.optimizer_options, behind)
    if stuck and not request.freeze_blocked:
        return _blocked(stuck, choices)
    request = replace(request, freeze=(*request.freeze, *sorted(behind)))
    with progress.task("differentiate"):
        graphs = _assembled(model, request)
    with _unused(output), replacing_folder(output, known_by=MANIFEST) as temporary:
        manifest = write(graphs, temporary)
    batch = _batch(manifest)
    seconds, trouble = _trial(output, manifest, batch)
    forecast = foresee(graphs.step or graphs.training, manifest, batch)
    found = Found(graphs, stuck, choices, forecast, seconds, trouble)
    return _prepared(output, manifest, found)


@contextmanager
def _unused(folder: Path) -> Iterator[None]:
    """Nobody trains in the folder that is replaced."""
    with lock.held(lock.inside(folder), folder) if folder.is_dir() and any(folder.iterdir()) else nullcontext():
        yield


def opened(source: Any, opening: Mapping[str, Any]) -> Model:
    """The model of a source: an ONNX file as it is, anything else through `convert`, with its training operators kept."""
    if isinstance(source, Model) or str(source).endswith(".onnx"):
        return Model.load(source)
    from sardonyx.convert import convert

    with temporary_folder() as scratch:
        path = scratch / "model.onnx"
        report = convert(source, path, training=True, **opening)
        if not report.ok:
            raise InputError(
                f"{source} does not convert: {report.summary}", hint=f"sardonyx convert {source} -o m.onnx"
            )
        model = Model.load(path)
        for value in model.ir.graph.initializers.values():  # read before the folder goes
            if value.const_value is not None:
                value.const_value.numpy()
        return model


def _assembled(model: Model, request: Request) -> Graphs:
    rule = Rule(request.optimizer, request.optimizer_options, request.groups, request.clip_norm)
    if request.lora is not None:
        from sardonyx.training.lora import adapted

        model = adapted(model, rank=request.lora, only=request.train, skip=request.freeze)
        request = replace(request, train=("*.lora_a", "*.lora_b"))
    return assemble(
        model, attach=_attach(request.loss, request.loss_options), rule=rule, train=request.train, freeze=request.freeze,
        predictions=request.predictions, batch_norm=request.batch_norm,  # type: ignore[arg-type]
    )  # fmt: skip


def _blocking(work: Model, request: Request) -> list[Blocker]:
    weights, _ = parameters.candidates(work)
    wanted = (
        weights if request.train is None or request.lora is not None else parameters._matching(weights, request.train)
    )
    wanted = [name for name in wanted if not parameters._matches(name, request.freeze)]
    return blockers(work, wrt=wanted, of=request.predictions) if wanted else []


def _blocked(stuck: list[Blocker], choices: tuple[Alternative, ...]) -> Report:
    behind = sorted({name for blocker in stuck for name in blocker.behind})
    return Report(
        verb="train prepare", verdict="blocked", ok=False,
        fields={"blockers": [_row(blocker) for blocker in stuck], "alternatives": [each.to_dict() for each in choices]},
        findings=tuple(map(_finding, stuck)), tables=(_choice_table(choices),),
        summary=f"{len(stuck)} nodes stop the gradient of {len(behind)} parameters; --freeze-blocked trains the rest",
    )  # fmt: skip


def _row(blocker: Blocker) -> dict[str, Any]:
    return {"node": blocker.node, "op_type": blocker.op_type, "behind": list(blocker.behind)}


def _finding(blocker: Blocker) -> Finding:
    shown = ", ".join(blocker.behind[:4]) + (", …" if len(blocker.behind) > 4 else "")
    return Finding(
        "error", "blocked", blocker.node, f"no gradient passes this {blocker.op_type}; behind it: {shown}",
        hint=advice(blocker.op_type),
    )  # fmt: skip


def _batch(manifest: Manifest) -> int:
    """The batch that the step is tried with: the one that the graph takes, or as many as a run takes by default."""
    first = manifest.inputs[0].shape[0] if manifest.inputs and manifest.inputs[0].shape else 1
    return first if isinstance(first, int) else DEFAULT_BATCH


def _trial(folder: Path, manifest: Manifest, batch: int) -> tuple[float | None, str]:
    """The seconds that a step takes here on generated data, the best of a few, so that the run can be foreseen."""
    try:
        state = CheckpointState.load_checkpoint(manifest.file(folder, "checkpoint"))
        stepper = FusedStep(folder, manifest, state)
        feeds = signature(manifest).sample(sizes=sizes_for(manifest, batch))
        for label in manifest.labels:
            if label.classes is not None:
                feeds[label.name] = np.zeros_like(feeds[label.name])
        best = min(_timed(lambda: stepper.step([feeds], 0.0)) for _ in range(_TRIALS))
    except SardonyxError as error:
        return None, error.message
    return best, ""


def _timed(call: Any) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _prepared(output: Path, manifest: Manifest, found: Found) -> Report:
    count = sum(each.elements for each in manifest.trainable)
    frozen = [each for each in manifest.parameters if not each.trainable]
    forecast = found.forecast
    return Report(
        verb="train prepare", verdict="prepared", ok=True,
        fields={
            "folder": str(output), "trainable": count, "frozen": [each.name for each in frozen], "loss": manifest.loss,
            "optimizer": manifest.optimizer, "parameters": manifest.shapes(), "blockers": list(map(_row, found.stuck)),
            "alternatives": [each.to_dict() for each in found.choices], "bytes": forecast.memory,
            "forecast": forecast.to_dict(), "files": dict(manifest.files), "seconds_per_step": found.seconds,
            "trial_batch": forecast.batch,
        },
        findings=tuple(_findings(found, frozen)),
        tables=(Table("training", ("", ""), _facts(manifest, found, count, frozen)), _choice_table(found.choices)),
        summary=f"{count:,} parameters can learn; sardonyx train run {output} --data D",
    )  # fmt: skip


def _findings(found: Found, frozen: list[Parameter]) -> Iterator[Finding]:
    yield from (replace(_finding(blocker), severity="info") for blocker in found.stuck)
    if frozen:
        yield Finding("info", "frozen", "", f"{len(frozen)} parameters are frozen: {_names(frozen)}")
    if found.trouble:
        yield Finding("warning", "not-timed", "", found.trouble, hint="try sardonyx train run on real data")


def _facts(manifest: Manifest, found: Found, count: int, frozen: list[Parameter]) -> tuple[tuple[Any, ...], ...]:
    forecast, step = found.forecast, found.graphs.step
    least = "at least " if forecast.unsized else ""
    return (
        ("trainable parameters", f"{count:,} in {len(manifest.trainable)} tensors"),
        ("frozen parameters", f"{sum(each.elements for each in frozen):,}"),
        ("running statistics", sum(bool(buffer.output) for buffer in manifest.buffers)),
        ("dropout", manifest.seed is not None),
        ("optimizer", manifest.optimizer),
        ("nodes of a step", 0 if step is None else len(step.ir.graph)),
        ("multiply-accumulates of a step", f"{forecast.macs:,}"),
        ("parameters, statistics and moments", human_bytes(forecast.state)),
        (f"memory of a step, batch {forecast.batch}", f"{least}{human_bytes(forecast.memory)}"),
        ("each example more", human_bytes(forecast.per_example)),
        (f"a step here, batch {forecast.batch}", _milliseconds(found.seconds)),
    )


def _choice_table(choices: tuple[Alternative, ...]) -> Table:
    rows = tuple(
        (each.choice, "blocked" if each.blocked else each.option or "(default)", f"{each.trainable:,}", f"{each.share:.1%}",
         human_bytes(each.memory))
        for each in choices
    )  # fmt: skip
    heads = ("to train", "option", "parameters", "of all", "gradients, moments and next values")
    return Table("what can be trained", heads, rows)


def _names(tensors: list[Parameter]) -> str:
    return ", ".join(each.name for each in tensors[:6]) + (", …" if len(tensors) > 6 else "")


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3g} ms"
