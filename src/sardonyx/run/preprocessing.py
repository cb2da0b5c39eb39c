"""A picture becomes a model's input: resized, padded or cut, its values shifted and scaled, and the way back for boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import images, registry
from sardonyx.errors import BadData, UsageError
from sardonyx.images import Layout
from sardonyx.signature import Array, Dim, TensorSpec

# What the margin of a letterbox is filled with, as the YOLO family was trained.
MARGIN = 114
RESIZES = ("stretch", "fit", "crop")
CHANNEL_ORDERS = ("rgb", "bgr")

# Mean and standard deviation of pixels that go from 0 to 255: y = (x - mean) / deviation.
NORMALIZATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485 * 255, 0.456 * 255, 0.406 * 255), (0.229 * 255, 0.224 * 255, 0.225 * 255)),
    "unit": ((0.0,), (255.0,)),
    "minus-one": ((127.5,), (127.5,)),
    "none": ((0.0,), (1.0,)),
}
_SAID = {"unit": "scaled to 0..1", "minus-one": "scaled to -1..1", "none": "0..255", "imagenet": "ImageNet's mean"}


@dataclass(frozen=True)
class Preprocessing:
    """How pixels become values. `normalize` None is `unit` for floats and `none` for integers."""

    normalize: str | None = None
    resize: str = "stretch"
    channel_order: str = "rgb"

    def __post_init__(self) -> None:
        if self.resize not in RESIZES:
            raise UsageError(f"there is no resize '{self.resize}'", hint=f"use {', '.join(RESIZES)}")
        if self.channel_order not in CHANNEL_ORDERS:
            raise UsageError(f"there is no channel order '{self.channel_order}'", hint="use rgb or bgr")
        if self.normalize is not None:
            statistics(self.normalize)

    def for_input(self, spec: TensorSpec) -> Preprocessing:
        """The same, with the normalisation settled by the type of the input."""
        floats = "float" in spec.dtype
        if self.normalize not in (None, "none") and not floats:
            raise UsageError(
                f"{spec} takes whole numbers, which --normalize {self.normalize} does not give",
                hint="leave --normalize out",
            )
        return replace(self, normalize=self.normalize or ("unit" if floats else "none"))


@dataclass(frozen=True)
class Placement:
    """Where a picture lies in the input: its own size, the size it was given there, and the place of its corner."""

    width: int
    height: int
    resized: tuple[int, int]
    left: int
    top: int

    def back(self, boxes: Array) -> Array:
        """Boxes of the input, as x0, y0, x1, y1, in pixels of the picture and inside it."""
        scale = np.array([self.resized[0] / self.width, self.resized[1] / self.height] * 2, np.float32)
        moved = (boxes.astype(np.float32) - np.array([self.left, self.top] * 2, np.float32)) / scale
        return np.clip(moved, 0, np.array([self.width, self.height] * 2, np.float32))


@dataclass(frozen=True)
class Picture:
    """A picture as it is (upright, `[H,W,C]` or grey `[H,W]`), as the input takes it, and how the two relate."""

    pixels: Array
    array: Array
    placement: Placement
    layout: Layout
    said: str


def statistics(normalize: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation by name, or of 'mean,std' on the scale of 0 to 1: two numbers, or three and three."""
    if normalize in NORMALIZATIONS:
        return NORMALIZATIONS[normalize]
    try:
        numbers = [float(word) * 255 for word in normalize.split(",")]
    except ValueError:
        numbers = []
    half = len(numbers) // 2
    if len(numbers) not in (2, 6) or not all(np.isfinite(numbers)) or min(numbers[half:]) <= 0:
        raise UsageError(
            f"there is no normalisation '{normalize}'",
            hint=f"use {', '.join(NORMALIZATIONS)}, or mean,std on the scale of 0 to 1, as 0.5,0.25; three of each for RGB",
        )
    return tuple(numbers[:half]), tuple(numbers[half:])


def picture_for(
    source: Any, spec: TensorSpec, how: Preprocessing, *, sizes: Mapping[str, int] | None = None, multiple: int = 1
) -> Picture:
    """The picture of a file, or of an array of 0 to 255, for this input.

    A size that the model leaves open is taken from `sizes`, else from the picture, rounded up to a `multiple`.
    """
    wanted = images.layout(_sized(spec, sizes or {}))
    how = how.for_input(spec)
    pixels = _pixels(source, wanted.channels)
    size = _target(pixels, wanted, multiple)
    placement = place((pixels.shape[1], pixels.shape[0]), size, how.resize)
    shown = _laid_out(pixels, placement, size)
    array = images.arrange(normalized(shown, how, wanted.channels), wanted.axes).astype(spec.numpy_dtype)
    return Picture(
        pixels, array, placement, replace(wanted, width=size[0], height=size[1]), _said(placement, size, how)
    )


def place(picture: tuple[int, int], target: tuple[int, int], resize: str) -> Placement:
    """Where a picture of this width and height lies in the target. Whole numbers, so that a graph computes the same."""
    (width, height), (wide, high) = picture, target
    if resize == "stretch":
        return Placement(width, height, target, 0, 0)
    # The side that meets the target's: the one that is relatively longer to fit inside, the shorter to cover it.
    by_width = width * high >= height * wide
    if by_width == (resize == "fit"):
        resized = wide, max(1, (2 * height * wide + width) // (2 * width))
    else:
        resized = max(1, (2 * width * high + height) // (2 * height)), high
    return Placement(width, height, resized, *(_middle(*pair) for pair in zip(target, resized, strict=True)))


def normalized(pixels: Array, how: Preprocessing, channels: int) -> Array:
    """Pixels of [H,W] or [H,W,C] as float32 values; in float32 throughout, as a graph would."""
    mean, deviation = (np.array(item, np.float32) for item in statistics(how.normalize or "unit"))
    if channels == 1 and mean.size > 1:
        raise UsageError("three means do not fit a grey input", hint="give one mean and one deviation: mean,std")
    ordered = pixels[:, :, ::-1] if how.channel_order == "bgr" and channels == 3 else pixels
    result: Array = (ordered.astype(np.float32) - mean) / deviation
    return result


def _middle(wide: int, resized: int) -> int:
    """The margin before, or with a minus the part that is cut; odd ones are rounded towards nothing."""
    return (wide - resized) // 2 if wide >= resized else -((resized - wide) // 2)


def _sized(spec: TensorSpec, sizes: Mapping[str, int]) -> TensorSpec:
    def known(axis: int, dim: Dim) -> Dim:
        return dim if isinstance(dim, int) else sizes.get(dim or "", sizes.get(f"{spec.name}.{axis}", dim))

    return replace(spec, shape=tuple(known(axis, dim) for axis, dim in enumerate(spec.shape or ())))


def _pixels(source: Any, channels: int) -> Array:
    if isinstance(source, (str, Path)):
        return np.asarray(images.decode(source, channels))
    pixels = np.asarray(source)
    grey = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 1)
    colour = pixels.ndim == 3 and pixels.shape[2] == 3
    if pixels.dtype != np.uint8 or not (grey or colour) or not pixels.size:
        raise BadData(
            f"an array of {pixels.dtype}{list(pixels.shape)} is not a picture",
            hint="give uint8 of [height, width, 3], or of [height, width] for grey",
        )
    if grey != (channels == 1):
        raise BadData(
            f"the picture is {'grey' if grey else 'in colour'}, and the model takes {channels} channels",
            hint="convert the picture first, or give its file",
        )
    return pixels.reshape(pixels.shape[:2]) if grey else pixels


def _target(pixels: Array, wanted: Layout, multiple: int) -> tuple[int, int]:
    """The width and height of the input."""
    height, width = (-(-size // multiple) * multiple for size in pixels.shape[:2])
    return (
        wanted.width if isinstance(wanted.width, int) else width,
        wanted.height if isinstance(wanted.height, int) else height,
    )


def _laid_out(pixels: Array, placement: Placement, size: tuple[int, int]) -> Array:
    """The picture resized, in the middle of the target; what is left over is the margin, what stands out is cut."""
    resized = (
        pixels if placement.resized == (placement.width, placement.height) else _resized(pixels, placement.resized)
    )
    left, top = max(0, -placement.left), max(0, -placement.top)
    seen = resized[top : top + size[1], left : left + size[0]]
    canvas = np.full((size[1], size[0], *pixels.shape[2:]), MARGIN, np.uint8)
    right, down = max(0, placement.left), max(0, placement.top)
    canvas[down : down + seen.shape[0], right : right + seen.shape[1]] = seen
    return canvas


def _resized(pixels: Array, size: tuple[int, int]) -> Array:
    registry.need("vision", for_what="resizing a picture")
    from PIL import Image

    # Across and then down, as in a graph: left to itself, Pillow goes down first where that is cheaper, and rounds otherwise.
    across = images.resize(Image.fromarray(pixels), (size[0], len(pixels)))
    return np.asarray(images.resize(across, size))


def _said(placement: Placement, size: tuple[int, int], how: Preprocessing) -> str:
    words = {"stretch": "stretched to", "fit": "fitted into", "crop": "cut to"}
    before = f"{placement.width}x{placement.height}"
    moved = (
        f"{before} {words[how.resize]} {size[0]}x{size[1]}" if size != (placement.width, placement.height) else before
    )
    values = _SAID.get(how.normalize or "", f"normalised by {how.normalize}")
    return f"{moved}, {values}{', BGR' if how.channel_order == 'bgr' else ''}"
