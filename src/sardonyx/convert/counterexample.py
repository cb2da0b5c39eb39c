"""The input on which an export is wrong, made as small as it gets, and kept for the user to try."""

from __future__ import annotations

from pathlib import Path

from sardonyx.arrays import write_npz
from sardonyx.convert.candidate import Candidate
from sardonyx.signature import Arrays, Signature

ROWS = 8


def single_rows(signature: Signature, inputs: Arrays) -> list[Arrays]:
    """The first rows of the inputs, each by itself; none where there is no batch to cut or only one row."""
    batch = next((spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)), None)
    rowed = [spec.name for spec in signature.inputs if spec.shape and spec.shape[0] == batch]
    if batch is None or inputs[rowed[0]].shape[0] < 2:
        return []
    return [
        {name: array[row : row + 1] if name in rowed else array for name, array in inputs.items()}
        for row in range(min(ROWS, inputs[rowed[0]].shape[0]))
    ]


def save_counterexample(candidate: Candidate, output: Path) -> Path | None:
    """Writes the candidate's counterexample beside `output`: its inputs, what the original says, and what the export says."""
    if candidate.counterexample is None:
        return None
    path = output.with_name(f"{output.stem}.{candidate.route}.counterexample.npz")
    write_npz(path, candidate.counterexample)
    return path
