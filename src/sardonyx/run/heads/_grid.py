"""The grids of cells that the YOLO family predicts on."""

from __future__ import annotations

import numpy as np

from sardonyx.run.heads._head import Raw
from sardonyx.signature import Array

# The strides of the grids that the family predicts on, with the larger models' fourth.
STRIDES = ((8, 16, 32), (8, 16, 32, 64))


def grids(raw: Raw, rows: int) -> tuple[int, ...] | None:
    """The strides whose grids together have this many cells."""
    return next((strides for strides in STRIDES if _count(raw, strides) == rows), None)


def _count(raw: Raw, strides: tuple[int, ...]) -> int:
    return sum(-(-raw.height // stride) * -(-raw.width // stride) for stride in strides)


def cells(raw: Raw, strides: tuple[int, ...]) -> Array:
    """x, y and stride of every cell of the grids, in the order that the family writes them."""
    parts = []
    for stride in strides:
        down, across = np.mgrid[: -(-raw.height // stride), : -(-raw.width // stride)]
        parts.append(np.stack([across.ravel(), down.ravel(), np.full(down.size, stride)], axis=1))
    return np.concatenate(parts).astype(np.float32)


def centred_in_pixels(centres: Array, grid: Array) -> bool:
    """Whether centres are pixels of the picture, near their cells, or offsets from them that wait to be decoded."""
    places = (grid[:, :2] + 0.5) * grid[:, 2:]
    as_pixels = np.median(np.abs(centres - places) / grid[:, 2:])
    as_offsets = np.median(np.abs(centres - 0.5))
    return bool(as_pixels < as_offsets)
