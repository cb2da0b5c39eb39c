"""onnxruntime's offline optimiser: a session that writes the graph it would run."""

from __future__ import annotations

import os
from pathlib import Path

from sardonyx.model import EXTERNAL_ABOVE, Model
from sardonyx.run.session import Settings, options

_DATA = "session.optimized_model_external_initializers_file_name"


def write(source: Path, target: Path, level: str) -> None:
    """Writes the graph after the optimisations of this level: ORT_ENABLE_BASIC, _EXTENDED or _ALL."""
    import onnxruntime as ort

    chosen = options(Settings())
    chosen.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    chosen.optimized_model_filepath = os.fspath(target)
    if Model.load(source).weight_bytes() > EXTERNAL_ABOVE:
        chosen.add_session_config_entry(_DATA, f"{target.name}.data")
    ort.InferenceSession(os.fspath(source), chosen, providers=["CPUExecutionProvider"])
