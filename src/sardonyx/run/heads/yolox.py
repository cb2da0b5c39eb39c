"""YOLOX before decoding: `[1,N,5+C]` of offsets in cells and logarithms of sizes, on grids with strides of 8, 16, 32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.errors import BadData
from sardonyx.run.heads._grid import cells, centred_in_pixels, grids
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._rows import best, columns, corners, matrix, written_best, written_corners
from sardonyx.signature import Array

SUPPRESSED = False
SHAPES = "[1,N,5+C] before decoding"


def can(raw: Raw) -> bool:
    output = raw.only(3)
    return output is not None and output.shape[2] >= 6


def fits(raw: Raw) -> Sure:
    output = raw.first
    if output.shape[1] <= output.shape[2]:
        return Sure.NO
    strides = grids(raw, output.shape[1])
    if strides is None or centred_in_pixels(output[0, :, :2], cells(raw, strides)):
        return Sure.NO
    return Sure.CERTAINLY


def decode(raw: Raw) -> Boxes:
    rows, grid = _parts(raw)
    centres = (rows[:, :2] + grid[:, :2]) * grid[:, 2:]
    sizes = np.exp(rows[:, 2:4]) * grid[:, 2:]
    scores, labels = best(rows[:, 4:5] * rows[:, 5:])
    return Boxes(corners(np.concatenate([centres, sizes], axis=1)), scores, labels, rows.shape[1] - 5)


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    sample, grid = _parts(raw)
    width = sample.shape[1]
    rows = matrix(next(iter(outputs.values())), width)
    centres = (columns(rows, 0, 2) + grid[:, :2]) * grid[:, 2:]
    sizes = op("Exp", columns(rows, 2, 4)) * grid[:, 2:]
    scores, labels = written_best(columns(rows, 4, 5) * columns(rows, 5, width))
    return Written(written_corners(op("Concat", centres, sizes, axis=1)), scores, labels)


def _parts(raw: Raw) -> tuple[Array, Array]:
    rows = raw.first[0].astype(np.float32)
    strides = grids(raw, len(rows))
    if strides is None:
        raise BadData(
            f"{len(rows):,} rows are not the cells of YOLOX's grids on a picture of {raw.width}x{raw.height}",
            hint="give the size that the model was exported for, or another --head",
        )
    return rows, cells(raw, strides)
