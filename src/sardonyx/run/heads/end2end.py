"""Detectors that have done everything: rows of x0, y0, x1, y1, score, class, or with the picture's number first, class, score."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._rows import columns, matrix
from sardonyx.signature import Array

SUPPRESSED = True
SHAPES = "[N,6] or [1,N,6]"

# The columns of the box, the score and the class, by the number of columns.
_PLACES = {6: (0, 4, 5), 7: (1, 6, 5)}


def can(raw: Raw) -> bool:
    output = raw.only(2) if raw.only(3) is None else raw.only(3)
    return output is not None and output.shape[-1] in _PLACES


def fits(raw: Raw) -> Sure:
    output = raw.first
    rows = _rows(output)
    _, score, kind = _PLACES[output.shape[-1]]
    whole = bool(
        np.all(rows[:, kind] == np.round(rows[:, kind])) and np.all((rows[:, score] >= 0) & (rows[:, score] <= 1))
    )
    return Sure.CERTAINLY if whole else Sure.NO


def decode(raw: Raw) -> Boxes:
    rows = _rows(raw.first)
    box, score, kind = _PLACES[rows.shape[1]]
    return Boxes(rows[:, box : box + 4], rows[:, score], rows[:, kind].astype(np.int64), None)


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    width = raw.first.shape[-1]
    rows = matrix(next(iter(outputs.values())), width)
    box, score, kind = _PLACES[width]
    labels = op("Cast", op("Reshape", columns(rows, kind, kind + 1), [-1]), to=7)
    return Written(columns(rows, box, box + 4), op("Reshape", columns(rows, score, score + 1), [-1]), labels)


def _rows(output: Array) -> Array:
    return output.reshape(-1, output.shape[-1]).astype(np.float32)
