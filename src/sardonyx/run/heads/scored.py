"""Boxes and a matrix of class scores, before suppression: `[1,N,4]` and `[1,N,C]`, as YOLO-NAS and many SSDs give them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sardonyx.build import Expr
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._parts import scale
from sardonyx.run.heads._rows import best, columns, matrix, written_best

SUPPRESSED = False
SHAPES = "boxes [1,N,4] and scores [1,N,C]"


def can(raw: Raw) -> bool:
    return _names(raw) is not None


def fits(raw: Raw) -> Sure:  # noqa: ARG001
    return Sure.CERTAINLY


def decode(raw: Raw) -> Boxes:
    boxes, scores = _found(raw)
    table = raw.outputs[scores][0].astype(np.float32)[:, _background(raw, scores) :]
    corners = raw.outputs[boxes][0].astype(np.float32) * scale(raw, boxes)
    return Boxes(corners, *best(table), table.shape[1])


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    boxes, scores = _found(raw)
    width = raw.outputs[scores].shape[2]
    table = columns(matrix(outputs[scores], width), _background(raw, scores), width)
    return Written(matrix(outputs[boxes], 4) * scale(raw, boxes), *written_best(table))


def _background(raw: Raw, scores: str) -> int:
    """One column more than labels is the background, which comes first."""
    return int(raw.labels is not None and raw.outputs[scores].shape[2] == raw.labels + 1)


def _names(raw: Raw) -> tuple[str, str] | None:
    """The outputs that hold boxes and scores; with four classes their names must tell."""
    if len(raw.outputs) != 2 or any(
        not isinstance(array, np.ndarray) or array.ndim != 3 or array.shape[0] != 1 or array.dtype.kind != "f"
        for array in raw.outputs.values()
    ):
        return None
    four = [name for name, array in raw.outputs.items() if array.shape[2] == 4]
    if len(four) == 2:
        four = [name for name in four if "box" in name.lower()]
    if len(four) != 1:
        return None
    (scores,) = (name for name in raw.outputs if name != four[0])
    same = raw.outputs[four[0]].shape[1] == raw.outputs[scores].shape[1]
    return (four[0], scores) if same else None


def _found(raw: Raw) -> tuple[str, str]:
    names = _names(raw)
    assert names is not None, "asked before whether it can"
    return names
