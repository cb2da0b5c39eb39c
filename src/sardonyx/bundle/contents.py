"""What lies in a bundle: the model, golden cases, the record of how it was made, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save

from sardonyx import history, machine
from sardonyx.files import replacing, sha256
from sardonyx.model import Model
from sardonyx.report import Report, Table
from sardonyx.run.session import Session
from sardonyx.samples import Samples

if TYPE_CHECKING:
    from sardonyx.bundle.shipping import Done

FORMAT = 1
MODEL, GOLDEN, RECORD, REPORT, PAGE = "model.onnx", "golden.safetensors", "bundle.json", "report.json", "report.html"
CASES, BATCH = 4, 4


def golden_cases(model: Path, data: Any, target: Path) -> Report:
    """Runs the model on the first batches of the data, or on generated inputs, and keeps inputs and outputs."""
    session = Session(model)
    inputs = _batches(session, data)
    kept: dict[str, np.ndarray[Any, Any]] = {}
    for index, batch in enumerate(inputs):
        outputs = session(batch)
        kept |= {f"{index}/input/{name}": np.ascontiguousarray(array) for name, array in batch.items()}
        kept |= {f"{index}/output/{name}": np.ascontiguousarray(array) for name, array in outputs.items()}
    with replacing(target) as temporary:
        temporary.write_bytes(save(kept))  # save_file would make it readable by its owner alone
    size = sum(array.nbytes for array in kept.values())
    return Report(
        "run", "ok", True, fields={"cases": len(inputs), "bytes": size},
        tables=(Table("golden cases", ("case", "inputs"), tuple(_case(i, batch) for i, batch in enumerate(inputs))),),
        summary=f"{len(inputs)} golden cases kept",
    )  # fmt: skip


def record(folder: Path, model: Model, stages: list[Done]) -> str:
    """bundle.json: every file with its hash, the signature, and the provenance of each stage."""
    files = {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != RECORD}
    signature = model.signature
    return json.dumps(
        {
            "format": FORMAT,
            "files": files,
            "signature": {
                "inputs": [spec.to_dict() for spec in signature.inputs],
                "outputs": [spec.to_dict() for spec in signature.outputs],
            },
            "opset": model.opset,
            "ir_version": model.ir_version,
            "stages": [
                {"stage": done.name, "verdict": done.report.verdict, "seconds": done.seconds} for done in stages
            ],
            "versions": history.versions(),
            "machine": {"cpu": machine.cpu_name(), "features": machine.features(), "threads": machine.threads()},
        },
        indent=1,
    )


def _batches(session: Session, data: Any) -> list[dict[str, np.ndarray[Any, Any]]]:
    if data is None:
        return [session.signature.sample(seed=seed) for seed in range(CASES)]
    batches = Samples.open(data, session.signature, batch=BATCH).take(CASES)
    return [dict(batch.inputs) for batch in batches]


def _case(index: int, batch: dict[str, np.ndarray[Any, Any]]) -> tuple[object, ...]:
    return index, ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in batch.items())
