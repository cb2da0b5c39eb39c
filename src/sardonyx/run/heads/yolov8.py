"""YOLOv8, v9, v11 and their kin: `[1,4+C,N]` of centre, size and class scores, without objectness; also `[1,N,4+C]`."""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx.build import Expr, op
from sardonyx.run.heads._grid import cells, centred_in_pixels, grids
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._rows import best, columns, corners, matrix, written_best, written_corners
from sardonyx.signature import Array

SUPPRESSED = False
SHAPES = "[1,4+C,N]"


def can(raw: Raw) -> bool:
    output = raw.only(3)
    return output is not None and min(output.shape[1:]) >= 5


def fits(raw: Raw) -> Sure:
    output = raw.first
    if output.shape[1] == output.shape[2]:
        return Sure.NO
    width, rows = sorted(output.shape[1:])
    strides = grids(raw, rows)
    if strides is not None and not centred_in_pixels(_rows(output)[:, :2], cells(raw, strides)):
        return Sure.NO
    upright = output.shape[1] < output.shape[2]
    if raw.labels is not None and not upright and width in (raw.labels + 4, raw.labels + 5):
        return Sure.CERTAINLY if width == raw.labels + 4 else Sure.NO
    if rows % 3 == 0 and grids(raw, rows // 3) and not upright:
        return Sure.NO
    return Sure.CERTAINLY if upright and strides else Sure.POSSIBLY


def decode(raw: Raw) -> Boxes:
    rows = _rows(raw.first)
    scores, labels = best(rows[:, 4:])
    return Boxes(corners(rows[:, :4]), scores, labels, rows.shape[1] - 4)


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    sample, output = raw.first, next(iter(outputs.values()))
    width = min(sample.shape[1:])
    rows = matrix(op("Transpose", output, perm=[0, 2, 1]) if sample.shape[1] == width else output, width)
    scores, labels = written_best(columns(rows, 4, width))
    return Written(written_corners(columns(rows, 0, 4)), scores, labels)


def _rows(output: Array) -> Array:
    matrix = output[0].astype("float32")
    return matrix.T if matrix.shape[0] < matrix.shape[1] else matrix
