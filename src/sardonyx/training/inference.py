"""Back to an inference model: the evaluation graph with its parameters filled in and without the loss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx import history
from sardonyx.errors import NotFound
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Arrays
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.lora import merge
from sardonyx.training.manifest import KEY, Manifest


def export_inference(evaluation: str | Path, state: CheckpointState, outputs: Sequence[str] | None = None) -> Model:
    """The network with the parameters of the state. `outputs`: any values of the graph; its own outputs by default."""
    manifest = Manifest.of(evaluation)
    state.check(manifest)
    model = Model.load(evaluation)
    graph = model.ir.graph
    wanted = list(outputs or (tensor.name for tensor in manifest.outputs))
    values = {value.name: value for value in (*graph.inputs, *(out for node in graph for out in node.outputs))}
    missing = [name for name in wanted if name not in values]
    if missing:
        raise NotFound(
            f"the graph has no value '{missing[0]}'", hint=f"its outputs: {', '.join(t.name for t in manifest.outputs)}"
        )
    graph.outputs.clear()
    graph.outputs.extend(values[name] for name in wanted)
    for tensor in (*manifest.parameters, *manifest.buffers):
        value = values[tensor.name]
        graph.inputs.remove(value)
        value.const_value = ir.tensor(np.array(state.arrays[tensor.name]), name=tensor.name)
        graph.register_initializer(value)
    for label in manifest.labels:
        if label.name in values and values[label.name] in graph.inputs:
            graph.inputs.remove(values[label.name])
    merge(model)
    passes.RemoveUnusedNodesPass()(model.ir)
    model.ir.metadata_props.pop(KEY, None)
    return model.record(history.step("train", options={"steps": state.step}))


def difference(evaluation: str | Path, exported: Model, state: CheckpointState, feeds: Arrays) -> float:
    """The largest difference between the exported model and the evaluation graph on one batch, both run as written."""
    plainly = Settings(optimize=False, prepacking=False)
    manifest = Manifest.of(evaluation)
    given = {tensor.name: state.arrays[tensor.name] for tensor in (*manifest.parameters, *manifest.buffers)}
    names = [spec.name for spec in exported.signature.outputs]
    inner = [spec.name for spec in exported.signature.inputs]
    old = Session(evaluation, plainly, outputs=names).run_fitted({**given, **feeds})
    new = Session(exported, plainly).run_fitted({name: feeds[name] for name in inner})
    return max(float(np.abs(old[name].astype(np.float64) - new[name]).max(initial=0)) for name in names)
