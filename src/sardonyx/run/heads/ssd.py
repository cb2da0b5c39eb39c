"""SSD as PyTorch and the ONNX model zoo export it: boxes (x first), scores, classes and perhaps a count, in any order."""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx.build import Expr
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._parts import decoded, found, parts, written

SUPPRESSED = True
SHAPES = "boxes [N,4], scores [N], classes [N]"


def can(raw: Raw) -> bool:
    return parts(raw) is not None


def fits(raw: Raw) -> Sure:
    return Sure.NO if found(raw).boxes.startswith("detection_boxes") else Sure.CERTAINLY


def decode(raw: Raw) -> Boxes:
    return decoded(raw, found(raw), y_first=False, first_class=0)


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    return written(outputs, raw, found(raw), y_first=False, first_class=0)
