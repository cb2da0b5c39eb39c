"""Boxes on the picture: a colour for each class, and labels that can be read on any ground."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx import files, registry
from sardonyx.errors import UsageError
from sardonyx.signature import Array

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG"}
_GOLDEN = 0.618034  # steps of the golden ratio round the circle of hues keep neighbours apart
# A small picture is drawn enlarged, so that the words have room.
_SHORTEST, _LARGEST_STEP = 480, 8


def check_target(path: str | Path) -> Path:
    """The path, if a picture can be written there."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} is no picture", hint=f"the name of a picture ends in {', '.join(SUFFIXES)}")
    registry.need("vision", for_what="drawing boxes")
    files.check_target(path)
    return path


def draw(pixels: Array, boxes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes the picture with the boxes `{label, score, box, index}` on it; the best are drawn last and lie on top."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(pixels).convert("RGB")
    step = max(1, min(_LARGEST_STEP, -(-_SHORTEST // max(1, min(image.size)))))
    if step > 1:
        image = image.resize((image.width * step, image.height * step), Image.Resampling.NEAREST)
    line = max(2, round(min(image.size) / 240))
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=max(14, min(image.size) / 30))
    for item in reversed(boxes):
        corners = [side * step for side in item["box"]]
        _outline(pen, corners, colour(int(item["index"])), line)
    for item in reversed(boxes):
        corners = [side * step for side in item["box"]]
        _caption(pen, corners, f"{item['label']}: {item['score'] * 100:.0f} %", colour(int(item["index"])), font)
    kind = _FORMATS.get(path.suffix.lower(), path.suffix[1:].upper())
    with files.replacing(path) as temporary:
        image.save(temporary, format=kind)


def colour(index: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb((0.02 + index * _GOLDEN) % 1, 0.85, 0.95)
    return round(red * 255), round(green * 255), round(blue * 255)


def _outline(pen: ImageDraw, corners: Sequence[float], ink: tuple[int, int, int], line: int) -> None:
    left, top, right, bottom = corners
    # Pillow counts the last pixel in, and refuses a box of less than nothing.
    inside = [left, top, max(left, right - 1), max(top, bottom - 1)]
    pen.rectangle(inside, outline=ink, width=line)


def _caption(pen: ImageDraw, corners: Sequence[float], text: str, ground: tuple[int, int, int], font: Any) -> None:
    """The words above the box, or in it where the picture ends; never outside of the picture."""
    wide, high = pen.im.size
    x0, y0, x1, y1 = pen.textbbox((0, 0), text, font=font)
    pad = max(2, round((y1 - y0) / 5))
    width, height = x1 - x0 + 2 * pad, y1 - y0 + 2 * pad
    left = max(0, min(corners[0], wide - width))
    top = corners[1] - height if corners[1] >= height else min(corners[1], max(0, high - height))
    pen.rectangle([left, top, left + width, top + height], fill=ground)
    bright = (299 * ground[0] + 587 * ground[1] + 114 * ground[2]) / 1000
    pen.text((left + pad - x0, top + pad - y0), text, fill="black" if bright > 128 else "white", font=font)
