"""`generate_artifacts`, as onnxruntime-training had it: changing the import line is the whole migration.

The arithmetic is onnxruntime-training's too: its AdamW adds epsilon (1e-6) before the bias is corrected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import onnx

from sardonyx.errors import NotFound, OutputError, UsageError
from sardonyx.files import write_text
from sardonyx.model import Model
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.graphs import Attach, Graphs, Rule, assemble, attach_model, attach_named, attach_output
from sardonyx.training.manifest import FILES, MANIFEST, Manifest
from sardonyx.training.modes import BatchNorm

__all__ = ["LossType", "OptimType", "generate_artifacts", "write"]


class LossType(Enum):
    """The losses that onnxruntime-training had by name."""

    MSELoss = 1
    CrossEntropyLoss = 2
    BCEWithLogitsLoss = 3
    L1Loss = 4


class OptimType(Enum):
    """The optimizers that onnxruntime-training had by name."""

    AdamW = 1
    SGD = 2


_LOSSES = {
    LossType.MSELoss: "mse",
    LossType.CrossEntropyLoss: "cross_entropy",
    LossType.BCEWithLogitsLoss: "bce_with_logits",
    LossType.L1Loss: "l1",
}
_OPTIMIZERS = {OptimType.AdamW: "adamw_onnxruntime", OptimType.SGD: "sgd"}


def generate_artifacts(
    model: onnx.ModelProto | Model | str | Path,
    requires_grad: list[str] | None = None,
    frozen_params: list[str] | None = None,
    loss: LossType | str | Model | Any | None = None,
    optimizer: OptimType | str | Rule | Any | None = None,
    artifact_directory: str | bytes | os.PathLike[str] | None = None,
    prefix: str = "",
    ort_format: bool = False,
    custom_op_library: str | bytes | os.PathLike[str] | None = None,
    additional_output_names: list[str] | None = None,
    nominal_checkpoint: bool = False,
    loss_input_names: list[str] | None = None,
    *,
    loss_options: Mapping[str, Any] | None = None,
    batch_norm: BatchNorm = "onnx",
) -> Manifest:
    """Writes training, evaluation, optimizer and step graphs, a checkpoint, `manifest.json` and `shapes.json`.

    `loss`: a `LossType`, the name of a loss, an ONNX model, an `onnxblock.Block`, or None where the first output is the
    loss. `optimizer`: an `OptimType`, a name, a `Rule`, or None for none. Every weight is trained where `requires_grad` is None.
    """
    both = sorted(set(requires_grad or ()) & set(frozen_params or ()))
    if both:
        raise UsageError(f"'{both[0]}' is to be trained and to be frozen", hint="name it in one of the lists alone")
    graphs = assemble(
        _model(model), attach=_attach(loss, loss_options), rule=_rule(optimizer), train=requires_grad,
        freeze=tuple(frozen_params or ()), predictions=loss_input_names, extra_outputs=tuple(additional_output_names or ()),
        batch_norm=batch_norm,
    )  # fmt: skip
    library = None if custom_op_library is None else Path(os.fsdecode(custom_op_library))
    if library is not None and not library.is_file():
        raise NotFound(f"there is no library {library}", hint="name the file of the custom operators")
    folder = Path(os.fsdecode(artifact_directory)) if artifact_directory is not None else Path.cwd()
    return write(
        graphs, folder, prefix=prefix, ort_format=ort_format, nominal=nominal_checkpoint,
        custom_op_library=None if library is None else str(library),
    )  # fmt: skip


def write(
    graphs: Graphs, folder: Path, *, prefix: str = "", ort_format: bool = False, nominal: bool = False,
    custom_op_library: str | None = None,
) -> Manifest:  # fmt: skip
    """Writes the graphs and what goes with them into the folder, and gives the manifest."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}", hint="choose another folder") from error
    present = {
        "training": graphs.training,
        "evaluation": graphs.evaluation,
        "optimizer": graphs.optimizer,
        "step": graphs.step,
    }
    absent = {kind for kind, graph in present.items() if graph is None}
    files = {kind: f"{prefix}{name}" for kind, name in FILES.items() if kind not in absent}
    manifest = replace(graphs.manifest, files=files, custom_op_library=custom_op_library)
    for kind, graph in present.items():
        if graph is not None:
            manifest.put_into(graph)
            path = graph.save(folder / files[kind])
            if ort_format:
                _write_ort_format(path)
    state = CheckpointState.start(manifest, graphs.values)
    state.save(folder / files["checkpoint"])
    if nominal:
        statistics = {buffer.name: state.arrays[buffer.name] for buffer in manifest.buffers}
        CheckpointState(statistics, state.trainable, nominal=True).save(folder / f"{prefix}nominal_checkpoint")
    write_text(folder / f"{prefix}{FILES['shapes']}", json.dumps(manifest.shapes(), indent=1) + "\n")
    write_text(folder / f"{prefix}{MANIFEST}", manifest.to_json(indent=1) + "\n")
    return manifest


def _model(model: Any) -> Model:
    if isinstance(model, onnx.ModelProto):
        return Model.from_proto(model)
    return Model.load(model)


def _attach(loss: Any, options: Mapping[str, Any] | None) -> Attach:
    if loss is None:
        return attach_output()
    if isinstance(loss, LossType):
        return attach_named(_LOSSES[loss], options)
    if isinstance(loss, str) and not loss.endswith(".onnx"):
        return attach_named(loss, options)
    if isinstance(loss, str | Path | Model | onnx.ModelProto):
        return attach_model(_model(loss))
    if hasattr(loss, "attach"):
        found: Attach = loss.attach
        return found
    raise UsageError(
        f"a {type(loss).__name__} is no loss", hint="give a LossType, a name, an ONNX model or an onnxblock.Block"
    )


def _rule(optimizer: Any) -> Rule | None:
    if optimizer is None or isinstance(optimizer, Rule):
        return optimizer
    if isinstance(optimizer, OptimType):
        return Rule(_OPTIMIZERS[optimizer])
    if isinstance(optimizer, str):
        return Rule(optimizer)
    found = getattr(optimizer, "rule", None)
    if isinstance(found, Rule):
        return found
    raise UsageError(f"a {type(optimizer).__name__} is no optimizer", hint="give an OptimType, a name or a Rule")


def _write_ort_format(path: Path) -> None:
    """The same graph in onnxruntime's own format, beside the model, for builds that read no other."""
    import onnxruntime as ort

    from sardonyx.run.session import DEFAULTS, options

    chosen = options(DEFAULTS)
    chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    chosen.add_session_config_entry("session.save_model_format", "ORT")
    chosen.optimized_model_filepath = os.fspath(path.with_suffix(".ort"))
    ort.InferenceSession(os.fspath(path), chosen, providers=["CPUExecutionProvider"])
