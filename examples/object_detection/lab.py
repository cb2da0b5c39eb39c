"""Object detection from nothing: scenes of digits, a small detector in the manner of YOLOv8, ONNX, INT8, and what each is worth.

    python examples/object_detection/lab.py [--output FOLDER] [--epochs 8]

It makes its own data, trains for about a minute, converts, quantises under a guard of mAP and speed, compares both models on
scenes that neither has seen, and draws what they find.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import detector
import numpy as np
import scenes
import torch
from PIL import Image

import sardonyx
from sardonyx.bench.interleave import speedup, take_turns
from sardonyx.report import Report, Table
from sardonyx.run.session import Session, Settings

INPUT = "image=float32[batch,3,64,64]"
METRIC = "scenes:mean_average_precision"
BUDGET = "2%"
DIGITS = [str(digit) for digit in range(10)]


def trained(epochs: int, count: int, seed: int) -> torch.nn.Module:
    pictures, rows = scenes.scenes(count, seed=seed, held_out=False)
    images = torch.from_numpy(scenes.network_input(pictures))
    return detector.train(images, torch.from_numpy(rows), epochs=epochs, seed=seed)


def main(folder: Path, *, epochs: int = 8, count: int = 3000, seed: int = 0, time: float = 20) -> dict[str, Any]:
    """Goes the whole way; prints the table and gives its figures."""
    network = trained(epochs, count, seed)
    float_path, int8_path = folder / "digits.onnx", folder / "digits-int8.onnx"
    converted = sardonyx.convert(network, float_path, inputs=[INPUT], route="trace", output_names=["boxes"])
    assert converted.ok, converted.to_text()
    pictures, rows = scenes.scenes(160, seed=seed + 1, held_out=False)
    data = folder / "scenes.npz"
    np.savez(data, image=scenes.network_input(pictures), label=rows)
    quantized = sardonyx.quantize(
        float_path, int8_path, data=data, metric=METRIC, budget=BUDGET, scheme="static_u8s8", time=time, threads=1
    )
    figures = measured(network, {"FP32": float_path, "INT8": int8_path}, seed)
    drawn = draw(int8_path, folder, seed)
    show(figures, quantized, drawn)
    return {**figures, "quantized": quantized, **drawn}


def measured(network: torch.nn.Module, paths: dict[str, Path], seed: int) -> dict[str, Any]:
    """mAP on scenes of held-out digits, and the speed of both models in turns."""
    pictures, rows = scenes.scenes(200, seed=seed + 2, held_out=True)
    images = scenes.network_input(pictures)
    sessions = {name: Session(path, Settings(threads=1)) for name, path in paths.items()}
    found = {name: session({"image": images})["boxes"] for name, session in sessions.items()}
    with torch.no_grad():
        found = {"PyTorch": network(torch.from_numpy(images)).numpy(), **found}
    one = {"image": images[:1]}
    rounds = take_turns({name: lambda run=run: run(one) for name, run in sessions.items()}, seconds=2)  # type: ignore[misc]
    return {
        "map": {name: scenes.mean_average_precision(outputs, rows) for name, outputs in found.items()},
        "speedup": speedup(rounds["FP32"], rounds["INT8"]),
        "sizes": {name: path.stat().st_size for name, path in paths.items()},
    }


def draw(path: Path, folder: Path, seed: int) -> dict[str, Any]:
    """A held-out scene with the boxes that the deployed model finds in it."""
    pictures, rows = scenes.scenes(12, seed=seed + 3, held_out=True)
    fullest = int((rows[:, :, 4] != scenes.NOTHING).sum(axis=1).argmax())
    Image.fromarray(pictures[fullest]).save(folder / "scene.png")
    report = sardonyx.run(
        path, {"image": folder / "scene.png"}, task="detect", labels=DIGITS, score=0.3, output=folder / "drawn.png"
    )
    return {"boxes": report["boxes"], "truth": rows[fullest], "drawn": folder / "drawn.png"}


def show(figures: dict[str, Any], quantized: Report, drawn: dict[str, Any]) -> None:
    faster, after = figures["speedup"], "" if quantized.verdict == "quantized" else " (kept float)"
    rows = tuple(
        (
            f"{name}{after if name == 'INT8' else ''}",
            f"{value:.3f}",
            f"{figures['sizes'].get(name, 0) / 1024:.0f} KiB" if name in figures["sizes"] else "",
            f"{faster.ratio:.3g} ({faster.low:.3g} to {faster.high:.3g})" if name == "INT8" else "",
        )
        for name, value in figures["map"].items()
    )
    table = Table(
        "200 scenes of digits that no model has seen", ("model", "mAP at 0.5", "file", "times as fast as FP32"), rows
    )
    print(quantized.to_text(width=120))
    print(
        Report("example", "compared", ok=True, tables=(table,), summary=f"drawn: {drawn['drawn']}").to_text(width=120)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=None, help="where files are written; a new folder by default")
    parser.add_argument("--epochs", type=int, default=8, help="rounds of training")
    words = parser.parse_args()
    chosen = words.output or Path(tempfile.mkdtemp(prefix="sardonyx-example-"))
    chosen.mkdir(parents=True, exist_ok=True)
    main(chosen, epochs=words.epochs)
