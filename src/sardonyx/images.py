"""Images as model inputs. What a shape says is followed; what it cannot say is fixed here and told to the user.

- Layout: `[N,C,H,W]`, `[N,H,W,C]`, `[C,H,W]`, `[H,W,C]` with 1 (grey) or 3 (RGB) channels, or grey `[N,H,W]`.
- Size: a fixed height and width are resized to (bilinear, antialiased); with one of the two fixed the proportions are kept;
  with both dynamic the image keeps its size.
- Values: 0 to 1 for floats, 0 to 255 for integers. No mean is subtracted: a model that wants one must be given arrays.
- The EXIF orientation is applied, transparency is laid over white, and 16 bits are cut to 8.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sardonyx import registry
from sardonyx.errors import BadData
from sardonyx.signature import Array, Dim, TensorSpec

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
# Formats that pillow decodes itself: no file is handed to another program, as EPS would be to Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
# What pillow's decoders raise on files that are damaged.
_DAMAGED = (
    OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RuntimeError, AssertionError,
    MemoryError, EOFError, struct.error, zlib.error,
)  # fmt: skip
# As pillow's own bound on what is decoded.
PIXELS_AT_MOST = 1 << 27
_MODES = {1: "L", 3: "RGB"}
_WHOLE = ("uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class Layout:
    """Where the model wants what: the axes by letter, as 'NCHW', and the sizes that are asked for."""

    axes: str
    channels: int
    height: Dim
    width: Dim


def layout(spec: TensorSpec) -> Layout:
    """How an image lies in this input, or `BadData` where the shape does not say."""
    shape = spec.shape or ()
    for axes in ("NCHW", "NHWC") if len(shape) == 4 else ("CHW", "HWC", "NHW") if len(shape) == 3 else ():
        sizes = dict(zip(axes, shape, strict=True))
        channels = sizes.get("C", 1)
        if channels in _MODES and _is_scaled(spec) is not None:
            return Layout(axes, int(channels or 1), sizes["H"], sizes["W"])
    raise BadData(
        f"{spec} does not look like an image",
        hint="an image fits [N,C,H,W], [N,H,W,C], [C,H,W] or [H,W,C] with 1 or 3 channels, as floats or as integers of 0 to 255",
    )


def load(path: str | Path, spec: TensorSpec) -> tuple[Array, str]:
    """The image as the input takes it, a batch of one where there is a batch axis, and a line that says what was done."""
    wanted = layout(spec)
    image = decode(path, wanted.channels)
    before, size = image.size, _target(image.size, wanted)
    if size[0] * size[1] > PIXELS_AT_MOST:
        raise BadData(
            f"{path} would become {size[0]}x{size[1]} pixels, since the model fixes one side alone",
            hint="cut the image to a shape nearer to a square",
        )
    if size != before:
        image = resize(image, size)
    pixels = arrange(np.asarray(image), wanted.axes)
    scaled = _is_scaled(spec)
    array = (pixels.astype(np.float32) / np.float32(255) if scaled else pixels).astype(spec.numpy_dtype)
    return array, f"{_said(wanted, before, size)}, {'scaled to 0..1' if scaled else '0..255'}"


def _is_scaled(spec: TensorSpec) -> bool | None:
    """Whether the values become 0 to 1; None where the type cannot hold an image."""
    if spec.is_tensor and "float" in spec.dtype:
        return True
    return False if spec.dtype in _WHOLE else None


def decode(path: str | Path, channels: int) -> Image:
    """The image, decoded to its last pixel, upright, grey or RGB."""
    registry.need("vision", for_what=f"reading the image {path}")
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=_FORMATS) as opened:
                return _plain(opened).convert(_MODES[channels])
    except UnidentifiedImageError as error:
        raise BadData(
            f"{path} is not an image that can be read", hint=f"save it as {' or '.join(_FORMATS[:2])}"
        ) from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise BadData(
            f"{path} has too many pixels to be decoded safely: {error}", hint="make the image smaller"
        ) from error
    except _DAMAGED as error:
        raise BadData(f"{path} is a damaged image: {error}", hint="copy or save the image again") from error


def _plain(opened: Image) -> Image:
    """Upright, opaque, eight bits a channel."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(opened)
    if image.mode == "F":
        raise ValueError("its pixels are floats of an unknown range")
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).clip(0, 65535) // 256).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image


def resize(image: Image, size: tuple[int, int]) -> Image:
    """The image in this width and height, bilinear and antialiased."""
    from PIL import Image as pillow

    # Pillow widens the filter when it shrinks, which is the antialiasing.
    return image.resize(size, pillow.Resampling.BILINEAR)


def _target(size: tuple[int, int], wanted: Layout) -> tuple[int, int]:
    """Width and height: as fixed by the model; in proportion where one is fixed; as they are where none is."""
    width, height = size
    if isinstance(wanted.width, int):
        return wanted.width, wanted.height if isinstance(wanted.height, int) else max(
            1, round(height * wanted.width / width)
        )
    if isinstance(wanted.height, int):
        return max(1, round(width * wanted.height / height)), wanted.height
    return size


def arrange(pixels: Array, axes: str) -> Array:
    """Pixels of [H,W] or [H,W,C] in the order of `axes`."""
    with_channels = pixels if pixels.ndim == 3 else pixels[:, :, None]
    order = "".join(letter for letter in axes if letter != "N")
    arranged = (
        with_channels.transpose(["HWC".index(letter) for letter in order]) if "C" in order else with_channels[:, :, 0]
    )
    return np.ascontiguousarray(arranged[None] if "N" in axes else arranged)


def _said(wanted: Layout, before: tuple[int, int], after: tuple[int, int]) -> str:
    colour = "RGB" if wanted.channels == 3 else "grey"
    size = f"{before[0]}x{before[1]}"
    return f"{colour} {wanted.axes}, {size}" + (f" resized to {after[0]}x{after[1]}" if before != after else "")
