"""SSD as TensorFlow exports it: boxes with y first, scores, classes that count from 1, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx.build import Expr
from sardonyx.run.heads._head import Boxes, Raw, Sure, Written
from sardonyx.run.heads._parts import decoded, found, parts, written

SUPPRESSED = True
SHAPES = "detection_boxes [N,4] with y first, scores [N], classes [N]"


def can(raw: Raw) -> bool:
    return parts(raw) is not None


def fits(raw: Raw) -> Sure:
    return Sure.CERTAINLY if found(raw).boxes.startswith("detection_boxes") else Sure.NO


def decode(raw: Raw) -> Boxes:
    return decoded(raw, found(raw), y_first=True, first_class=1)


def write(outputs: Mapping[str, Expr], raw: Raw) -> Written:
    return written(outputs, raw, found(raw), y_first=True, first_class=1)
