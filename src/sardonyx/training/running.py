"""The verbs on a prepared folder: train it, evaluate it, export it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from sardonyx import lock, progress, registry
from sardonyx.below import Folder
from sardonyx.errors import NotFound, UsageError
from sardonyx.files import check_target
from sardonyx.report import Report, Table
from sardonyx.run.session import Settings
from sardonyx.training.batches import open_data
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.evaluation import Judge
from sardonyx.training.feeding import signature
from sardonyx.training.inference import difference, export_inference
from sardonyx.training.loop import BEST, LAST, Course, Plan, Run
from sardonyx.training.lora import B
from sardonyx.training.manifest import Manifest

START = "checkpoint"


def train_folder(
    folder: Path, *, data: Any, valid: Any, epochs: int, options: Mapping[str, Any], resume: bool, restart: bool,
    plot: Path | None, threads: int | None,
) -> Report:  # fmt: skip
    manifest = Manifest.open(folder)
    if plot is not None:
        registry.need("report", for_what="a plot")
        check_target(plot)
    with lock.held(lock.inside(folder), folder):
        state = _begin(folder, manifest, resume=resume, restart=restart)
        plan = _plan(state, epochs, options)
        samples = open_data(data, manifest, batch=plan.batch_size)
        held_out = None if valid is None else open_data(valid, manifest, batch=plan.batch_size)
        run = Run(folder, manifest, state, plan, samples, held_out, Settings(threads=threads))
        course, early = run.go()
    if plot is not None:
        from sardonyx.training.plot import draw

        draw(course, plot)
    return _trained(folder, state, course, early)


def evaluate_folder(folder: Path, *, data: Any, checkpoint: str | None, batch_size: int, threads: int | None) -> Report:
    manifest = Manifest.open(folder)
    name = checkpoint or (LAST if (folder / LAST).is_file() else START)
    state = _state(folder, manifest, name)
    samples = open_data(data, manifest, batch=batch_size)
    with progress.task("evaluate"):
        metrics = Judge(folder, manifest, state, settings=Settings(threads=threads)).metrics(samples)
    return Report(
        verb="train evaluate", verdict="evaluated", ok=True,
        fields={"checkpoint": name, "steps": state.step, "metrics": metrics},
        tables=(Table("metrics", ("metric", "value"), tuple(metrics.items())),),
        summary=f"{name}, after {state.step} steps",
    )  # fmt: skip


def export_folder(folder: Path, output: Path, *, checkpoint: str | None, outputs: Sequence[str] | None) -> Report:
    manifest = Manifest.open(folder)
    name = checkpoint or next((each for each in (BEST, LAST) if (folder / each).is_file()), START)
    state = _state(folder, manifest, name)
    evaluation = manifest.graph(folder, "evaluation")
    check_target(output)
    model = export_inference(evaluation, state, outputs)
    error = difference(evaluation, model, state, signature(manifest).sample())
    fields_of = {"checkpoint": name, "steps": state.step, "max_error": error}
    # A merged adapter is rounded once more than the graph that adds it at every run.
    allowed = 1e-4 if any(each.name.endswith(B) for each in manifest.parameters) else 0.0
    if not error <= allowed:
        return Report(
            verb="train export", verdict="mismatch", ok=False, fields={**fields_of, "path": None},
            summary=f"the export differs from the evaluation graph by {error:.3g}; nothing was written",
        )  # fmt: skip
    path = model.save(output)
    return Report(
        verb="train export", verdict="exported", ok=True, fields={**fields_of, "path": str(path)},
        summary=f"{path}, from {name} after {state.step} steps; equal to the evaluation graph",
    )  # fmt: skip


def _state(folder: Path, manifest: Manifest, name: str) -> CheckpointState:
    file = manifest.files.get("checkpoint", START) if name == START else name
    try:
        with Folder(folder) as artifacts:
            artifacts.size(file, alone=False)
    except NotFound as error:
        there = [each for each in (BEST, LAST, START) if (folder / each).is_file()]
        raise NotFound(f"{folder} has no checkpoint '{name}'", hint=f"it has {', '.join(there) or 'none'}") from error
    state = CheckpointState.load_checkpoint(folder / file)
    state.check(manifest)
    return state


def _begin(folder: Path, manifest: Manifest, *, resume: bool, restart: bool) -> CheckpointState:
    if resume and restart:
        raise UsageError("resume or restart, not both", hint="leave one of them out")
    if resume:
        return _state(folder, manifest, LAST)
    if (folder / LAST).exists() and not restart:
        raise UsageError(f"{folder} has been trained", hint="go on with --resume, or begin again with --restart")
    return _state(folder, manifest, START)


def _plan(state: CheckpointState, epochs: int, options: Mapping[str, Any]) -> Plan:
    """What is given, else what the run was begun with, else the defaults."""
    stored = {name: value for name, value in state.progress.get("plan", {}).items() if name != "epochs"}
    known = {each.name for each in fields(Plan)}
    given = {name: value for name, value in options.items() if value is not None}
    return Plan(**{**{name: value for name, value in stored.items() if name in known}, **given, "epochs": epochs})


def _trained(folder: Path, state: CheckpointState, course: Course, early: bool) -> Report:
    names = list(course.history[-1]) if course.history else []
    rows = tuple(tuple(_number(row[name]) for name in names) for row in course.history[-20:])
    last = course.history[-1] if course.history else {}
    return Report(
        verb="train run", verdict="stopped-early" if early else "trained", ok=True,
        fields={
            "folder": str(folder), "steps": state.step, "epochs": course.epoch, "loss": last.get("loss"),
            "best": course.best, "metrics": {k.removeprefix("valid_"): v for k, v in last.items() if k.startswith("valid_")},
            "history": course.history, "checkpoint": str(folder / LAST), "best_checkpoint": str(folder / BEST),
        },
        tables=(Table("epochs", tuple(name.replace("_", " ") for name in names), rows),) if rows else (),
        summary=f"{state.step} steps, {course.epoch} epochs; sardonyx train export {folder} -o m.onnx",
    )  # fmt: skip


def _number(value: float) -> object:
    return int(value) if isinstance(value, int) else float(value)
