"""PicoDet, NanoDet and other heads of distances by distribution: for each grid scores `[1,N,C]` and `[1,N,4*bins]`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.run.heads._grid import STRIDES, cells
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._rows import best, matrix, reduced, written_best
from sardonyx.signature import Array

SUPPRESSED = False
SHAPES = "scores [1,N,C] and distances [1,N,4*bins] for each grid"

# Bins of a distance: PicoDet has 8, GFL 17, newer NanoDets 6 to 16. Fewer could not span a box.
_BINS = range(5, 33)


def can(raw: Raw) -> bool:
    return _pairs(raw) is not None


def fits(raw: Raw) -> Sure:  # noqa: ARG001
    return Sure.CERTAINLY


def decode(raw: Raw) -> Boxes:
    grid, pairs = _found(raw)
    sides = np.concatenate([_sides(raw.outputs[distances]) for _, distances in pairs]) * grid[:, 2:]
    table = np.concatenate([raw.outputs[scores][0].astype(np.float32) for scores, _ in pairs])
    centres = (grid[:, :2] + np.float32(0.5)) * grid[:, 2:]
    boxes = np.concatenate([centres - sides[:, :2], centres + sides[:, 2:]], axis=1)
    return Boxes(boxes, *best(table), table.shape[1])


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    grid, pairs = _found(raw)
    classes = raw.outputs[pairs[0][0]].shape[2]
    table = op("Concat", *(matrix(outputs[scores], classes) for scores, _ in pairs), axis=0)
    bins = raw.outputs[pairs[0][1]].shape[2] // 4
    spread = op("Concat", *(matrix(outputs[distances], 4 * bins) for _, distances in pairs), axis=0)
    shares = op("Softmax", op("Reshape", spread, [-1, bins]), axis=1)
    mean = op("Reshape", reduced("ReduceSum", shares * np.arange(bins, dtype=np.float32), 1), [-1, 4])
    centres = (grid[:, :2] + np.float32(0.5)) * grid[:, 2:]
    outward = np.array([-1, -1, 1, 1], np.float32)
    boxes = mean * (grid[:, 2:] * outward) + np.concatenate([centres, centres], axis=1)
    return Written(boxes, *written_best(table))


def _sides(distances: Array) -> Array:
    """The mean of each distribution: how many cells to the left, the top, the right and the bottom."""
    spread = distances.astype(np.float32).reshape(len(distances[0]), 4, -1)
    shares = np.exp(spread - spread.max(axis=2, keepdims=True))
    mean: Array = (shares * np.arange(spread.shape[2], dtype=np.float32)).sum(axis=2) / shares.sum(axis=2)
    return mean


def _pairs(raw: Raw) -> tuple[tuple[int, ...], list[tuple[str, str]]] | None:
    """The strides, and for each the names of its scores and distances."""
    if any(not isinstance(item, np.ndarray) or item.ndim != 3 or item.shape[0] != 1 for item in raw.outputs.values()):
        return None
    for strides in STRIDES:
        rows = [-(-raw.height // stride) * -(-raw.width // stride) for stride in strides]
        found = [[name for name, item in raw.outputs.items() if item.shape[1] == count] for count in rows]
        if len(raw.outputs) == 2 * len(strides) and all(len(names) == 2 for names in found):
            widths = {raw.outputs[name].shape[2] for names in found for name in names}
            wide = max(widths)
            if len(widths) == 2 and wide % 4 == 0 and wide // 4 in _BINS:
                ordered = [sorted(names, key=lambda name: raw.outputs[name].shape[2]) for names in found]
                return strides, [(names[0], names[1]) for names in ordered]
    return None


def _found(raw: Raw) -> tuple[Array, list[tuple[str, str]]]:
    found = _pairs(raw)
    assert found is not None, "asked before whether it can"
    return cells(raw, found[0]), found[1]
