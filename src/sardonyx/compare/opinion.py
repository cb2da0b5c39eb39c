"""What runtimes other than onnxruntime answer: onnx's own reference evaluator, and OpenVINO where it is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sardonyx import child, registry
from sardonyx.model import Model
from sardonyx.signature import Array, Arrays

# The module that a runtime needs, and what it is called in a report.
RUNTIMES = {"onnx": "onnx's reference evaluator", "openvino": "OpenVINO"}
# Seconds that each may take. The reference evaluator runs in Python, so that a large model ends here.
TIMEOUT = 60.0


def opinions(source: Model | Path, batch: Arrays, names: Sequence[str]) -> Iterator[tuple[str, list[Array]]]:
    """The outputs of these names by each runtime that is installed and answers in time, one after the other.

    Each runs in a process of its own: OpenVINO has been seen to crash on CPUs that it takes for others.
    """
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        folder = Path(scratch)
        path = source if isinstance(source, Path) else Model(source.ir.clone()).save(folder / "model.onnx")
        np.savez(folder / "inputs.npz", **{name: _writable(array) for name, array in batch.items()})  # type: ignore[arg-type]
        for module, called in RUNTIMES.items():
            if not registry.importable(module):
                continue
            asked = {
                "runtime": module, "model": str(path.resolve()), "outputs": list(names),
                "inputs": str(folder / "inputs.npz"), "target": str(folder / f"{module}.npz"),
            }  # fmt: skip
            outcome = child.call(child.module("sardonyx.compare._opinion"), asked, timeout=TIMEOUT)
            if outcome.end == "answered" and not outcome.answer["reason"]:
                with np.load(folder / f"{module}.npz", allow_pickle=False) as held:
                    yield called, [held[str(index)] for index in range(len(names))]


def _writable(array: Array) -> Array:
    """Strings as numpy writes them without pickle."""
    return array.astype(str) if array.dtype.kind == "O" else array
