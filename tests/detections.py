"""Scenes with known boxes, written as each kind of detector would put them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sardonyx.run.heads._grid import STRIDES, cells
from sardonyx.run.heads._head import Raw
from sardonyx.signature import Array, Arrays

WIDTH, HEIGHT, CLASSES = 96, 64, 3

# x0, y0, x1, y1 in pixels of the input; score; class. The third is a worse double of the first.
THINGS = np.array(
    [[10, 12, 40, 50, 0.9, 2], [50, 20, 90, 60, 0.8, 0], [11, 13, 41, 52, 0.6, 2], [8, 6, 20, 18, 0.1, 1]]
)
VISIBLE = [0, 1]


@dataclass(frozen=True)
class Written:
    """The head's name, the outputs, and whether the double is the model's own to drop."""

    head: str
    outputs: Arrays
    suppressed: bool = False

    def raw(self, labels: int | None = None) -> Raw:
        return Raw(self.outputs, HEIGHT, WIDTH, labels)


def _centred() -> Array:
    boxes = THINGS[:, :4]
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


def _one_hot(high: Array) -> Array:
    return np.eye(CLASSES)[THINGS[:, 5].astype(int)] * high[:, None]


def grid(strides: tuple[int, ...] = STRIDES[0]) -> Array:
    return cells(Raw({}, HEIGHT, WIDTH), strides)


def _seats(strides: tuple[int, ...] = STRIDES[0]) -> list[int]:
    """For each thing a cell that its centre lies in, or the next free one."""
    cell, taken = grid(strides), []
    for centre in _centred()[:, :2]:
        away = np.abs((cell[:, :2] + 0.5) * cell[:, 2:] - centre).sum(axis=1)
        away[taken] = np.inf
        taken.append(int(away.argmin()))
    return taken


def _near_cells(anchors: int) -> Array:
    """Centre and size of every cell, as a network that sees nothing gives them."""
    cell = grid()
    boxes = np.concatenate([(cell[:, :2] + 0.5) * cell[:, 2:], np.repeat(cell[:, 2:], 2, axis=1)], axis=1)
    return np.concatenate([boxes] * anchors)


def yolov5() -> Written:
    rows = np.concatenate([_near_cells(3), np.full((3 * len(grid()), 1 + CLASSES), 1e-3)], axis=1)
    objectness = np.array([0.95] * len(THINGS))
    rows[_seats()] = np.concatenate([_centred(), objectness[:, None], _one_hot(THINGS[:, 4] / 0.95)], axis=1)
    return Written("yolov5", {"output0": rows[None].astype(np.float32)})


def yolov8() -> Written:
    rows = np.concatenate([_near_cells(1), np.full((len(grid()), CLASSES), 1e-3)], axis=1)
    rows[_seats()] = np.concatenate([_centred(), _one_hot(THINGS[:, 4])], axis=1)
    return Written("yolov8", {"output0": rows.T[None].astype(np.float32)})


def yolox() -> Written:
    random, cell = np.random.default_rng(0), grid()
    rows = np.concatenate([random.normal(0.5, 0.3, (len(cell), 4)), np.full((len(cell), 1 + CLASSES), 1e-3)], axis=1)
    for seat, box, score in zip(_seats(), _centred(), _one_hot(THINGS[:, 4] / 0.95), strict=True):
        x, y, stride = cell[seat]
        rows[seat] = [box[0] / stride - x, box[1] / stride - y, *np.log(box[2:] / stride), 0.95, *score]
    return Written("yolox", {"output": rows[None].astype(np.float32)})


def end2end() -> Written:
    rows = np.concatenate([THINGS[[1, 0, 3]], np.zeros((7, 6))])
    return Written("end2end", {"output0": rows[None].astype(np.float32)}, suppressed=True)


def end2end_flat() -> Written:
    rows = THINGS[[1, 0, 3]]
    numbered = np.concatenate([np.zeros((3, 1)), rows[:, :4], rows[:, 5:], rows[:, 4:5]], axis=1)
    return Written("end2end", {"output": numbered.astype(np.float32)}, suppressed=True)


def ssd() -> Written:
    rows = THINGS[[0, 1, 3]]
    shares = rows[:, :4] / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    outputs = {"a": rows[None, :, 4], "b": shares[None], "c": rows[None, :, 5].astype(np.int64)}
    return Written("ssd", {name: _narrow(array) for name, array in outputs.items()}, suppressed=True)


def ssd_in_pixels() -> Written:
    rows = THINGS[[0, 1, 3]]
    outputs = {"boxes": rows[:, :4], "labels": rows[:, 5], "scores": rows[:, 4]}
    return Written("ssd", {name: _narrow(array) for name, array in outputs.items()}, suppressed=True)


def tfssd() -> Written:
    rows = np.concatenate([THINGS[[0, 1, 3]], THINGS[[2]]])  # the count leaves the double out
    shares = (rows[:, :4] / [WIDTH, HEIGHT, WIDTH, HEIGHT])[:, [1, 0, 3, 2]]
    outputs = {
        "num_detections": np.array([3.0]), "detection_scores": rows[None, :, 4],
        "detection_classes": rows[None, :, 5] + 1, "detection_boxes": shares[None],
    }  # fmt: skip
    return Written("tfssd", {name: _narrow(array) for name, array in outputs.items()}, suppressed=True)


def scored() -> Written:
    outputs = {"scores": _one_hot(THINGS[:, 4])[None], "boxes": THINGS[None, :, :4]}
    return Written("scored", {name: _narrow(array) for name, array in outputs.items()})


def gfl() -> Written:
    """Four grids, eight bins: a distance lies between two bins, in shares of both."""
    strides, bins = STRIDES[1], 8
    cell = grid(strides)
    scores, spread = np.full((len(cell), CLASSES), 1e-3), np.zeros((len(cell), 4, bins))
    for seat, thing, score in zip(_seats(strides), THINGS, _one_hot(THINGS[:, 4]), strict=True):
        x, y, stride = cell[seat]
        centre = np.array([(x + 0.5) * stride, (y + 0.5) * stride])
        distances = np.concatenate([centre - thing[:2], thing[2:4] - centre]) / stride
        shares = np.maximum(0, 1 - np.abs(np.arange(bins) - distances[:, None]))
        spread[seat], scores[seat] = np.log(np.maximum(shares, 1e-9)), score
    ends = np.cumsum([(cell[:, 2] == stride).sum() for stride in strides])[:-1]
    outputs = {f"score{index}": part[None] for index, part in enumerate(np.split(scores, ends))}
    outputs |= {f"box{index}": part.reshape(1, -1, 4 * bins) for index, part in enumerate(np.split(spread, ends))}
    return Written("gfl", {name: _narrow(array) for name, array in outputs.items()})


def _narrow(array: Array) -> Array:
    return array if array.dtype.kind == "i" else array.astype(np.float32)


WAYS: dict[str, Callable[[], Written]] = {
    way.__name__: way
    for way in (yolov5, yolov8, yolox, end2end, end2end_flat, ssd, ssd_in_pixels, tfssd, scored, gfl)
}  # fmt: skip
