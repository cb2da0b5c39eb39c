"""Train, ship, verify, and say what to do next."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

import sardonyx
from sardonyx import progress
from sardonyx.demo import digits as lesson
from sardonyx.report import Report, Table
from sardonyx.run.session import Session

INPUT = "image=float32[batch,1,8,8]"
# The whole tour is to take less than three minutes on two cores, with the installation behind it.
SETTINGS: dict[str, dict[str, Any]] = {"optimize": {"seconds": 15}, "quantize": {"time": 30}, "bench": {"seconds": 2}}
NEXT = """\
Open the report: {bundle}/report.html
Serve it:        sardonyx serve {bundle}
Train it on:     sardonyx train prepare {bundle}/float.onnx -o {bundle}-training"""


def tour(output: Path, *, epochs: int, seed: int) -> Report:
    """Ships the trained network and verifies the bundle, with its accuracy in PyTorch and in ONNX beside the stages."""
    with progress.task("train", total=epochs) as advance:
        model = lesson.train(epochs, seed, after_epoch=lambda loss: advance(text=f"train: loss {loss:.4f}"))
    _, _, images, labels = lesson.digits()
    with tempfile.TemporaryDirectory(prefix="sardonyx-demo-") as scratch:
        weights, data = Path(scratch) / "digits.safetensors", Path(scratch) / "held-out.npz"
        save_file(model.state_dict(), weights)
        np.savez(data, image=images, label=labels)
        shipped = sardonyx.ship(
            f"{lesson.__file__}:DigitsNet", output, data=data, inputs=[INPUT], weights=weights, settings=SETTINGS
        )
    if not shipped.ok:
        return replace(shipped, verb="demo")
    return _told(shipped, sardonyx.verify(output), output, _accuracies(model, output, images, labels))


def _told(shipped: Report, verified: Report, output: Path, accuracies: dict[str, float]) -> Report:
    table = Table("accuracy on 360 held-out digits", ("model", "accuracy"), tuple(accuracies.items()))
    checked = Table("the bundle", ("", ""), (("verify", verified.verdict), ("", verified.summary)))
    # A quantised model may lose what the guard's budget allows, and no more.
    ok = verified.ok and accuracies["float.onnx"] >= accuracies["PyTorch"]
    return replace(
        shipped,
        verb="demo",
        ok=ok,
        fields={**shipped.fields, "accuracy": accuracies, "verified": verified.verdict},
        tables=(*shipped.tables, table, checked),
        summary=f"{shipped.summary.splitlines()[0]}\n{NEXT.format(bundle=output)}",
    )


def _accuracies(model: torch.nn.Module, output: Path, images: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    with torch.no_grad():
        found = {"PyTorch": _accuracy(model(torch.from_numpy(images)).numpy(), labels)}
    for name in ("float.onnx", "model.onnx"):
        (logits,) = Session(output / name)({"image": images}).values()
        found[name] = _accuracy(logits, labels)
    return found


def _accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((logits.argmax(axis=1) == labels).mean())
