"""Train, ship, and say what to do next."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import sardonyx
from sardonyx import progress
from sardonyx.demo import digits as lesson
from sardonyx.report import Report, Table
from sardonyx.run.session import Session

INPUT = "image=float32[batch,1,8,8]"


def tour(output: Path, *, epochs: int, seed: int) -> Report:
    """Ships the trained network, with its accuracy in PyTorch and in ONNX on held-out digits beside the stages."""
    with progress.task("train", total=epochs) as advance:
        model = lesson.train(epochs, seed, after_epoch=lambda loss: advance(text=f"train: loss {loss:.4f}"))
    _, _, images, labels = lesson.digits()
    with tempfile.TemporaryDirectory(prefix="sardonyx-demo-") as scratch:
        weights, data = Path(scratch) / "digits.safetensors", Path(scratch) / "held-out.npz"
        save_file(model.state_dict(), weights)
        np.savez(data, image=images, label=labels)
        shipped = sardonyx.ship(f"{lesson.__file__}:DigitsNet", output, data=data, inputs=[INPUT], weights=weights)
    if not shipped.ok:
        return replace(shipped, verb="demo")
    return _with_accuracy(shipped, output, model, images, labels)


def _with_accuracy(
    shipped: Report, output: Path, model: torch.nn.Module, images: np.ndarray, labels: np.ndarray
) -> Report:
    with torch.no_grad():
        before = _accuracy(model(torch.from_numpy(images)).numpy(), labels)
    (logits,) = Session(output / "model.onnx")({"image": images}).values()
    after = _accuracy(logits, labels)
    table = Table("accuracy on 360 held-out digits", ("model", "accuracy"), (("PyTorch", before), ("ONNX", after)))
    summary = (
        f"{output / 'model.onnx'}\nReport: {output / 'report.html'}\n"
        f"Next: sardonyx inspect {output / 'model.onnx'}  or  sardonyx run {output / 'model.onnx'} --size batch=4"
    )
    return replace(
        shipped,
        verb="demo",
        ok=shipped.ok and after >= before,
        fields={**shipped.fields, "accuracy": {"torch": before, "onnx": after}},
        tables=(*shipped.tables, table),
        summary=summary,
    )


def _accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((logits.argmax(axis=1) == labels).mean())
