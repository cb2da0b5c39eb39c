"""YOLOv5 and its kin (v6, v7, a YOLOX that decodes itself): `[1,N,5+C]` of centre, size, objectness and class scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.build import Expr
from sardonyx.run.heads._grid import cells, centred_in_pixels, grids
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._rows import best, columns, corners, matrix, written_best, written_corners

SUPPRESSED = False
SHAPES = "[1,N,5+C]"


def can(raw: Raw) -> bool:
    output = raw.only(3)
    return output is not None and output.shape[2] >= 6


def fits(raw: Raw) -> Sure:
    output = raw.first
    if output.shape[1] <= output.shape[2]:
        return Sure.NO
    _, rows, width = output.shape
    if rows % 3 == 0 and grids(raw, rows // 3):  # three anchors a cell
        return Sure.CERTAINLY
    if raw.labels is not None and width in (raw.labels + 4, raw.labels + 5):
        return Sure.CERTAINLY if width == raw.labels + 5 and _decoded(raw, rows) else Sure.NO
    return Sure.POSSIBLY if _decoded(raw, rows) else Sure.NO


def decode(raw: Raw) -> Boxes:
    rows = _output(raw)
    scores, labels = best(rows[:, 4:5] * rows[:, 5:])
    return Boxes(corners(rows[:, :4]), scores, labels, rows.shape[1] - 5)


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    rows = matrix(next(iter(outputs.values())), _output(raw).shape[1])
    width = _output(raw).shape[1]
    scores, labels = written_best(columns(rows, 4, 5) * columns(rows, 5, width))
    return Written(written_corners(columns(rows, 0, 4)), scores, labels)


def _output(raw: Raw) -> Any:
    output = raw.first
    return output.reshape(-1, output.shape[-1]).astype("float32")


def _decoded(raw: Raw, rows: int) -> bool:
    strides = grids(raw, rows)
    return strides is None or centred_in_pixels(_output(raw)[:, :2], cells(raw, strides))
