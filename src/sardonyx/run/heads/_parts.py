"""Boxes, scores, classes and a count that come as outputs of their own, told apart by shape, type, name and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.run.heads._head import Boxes, Raw, Written
from sardonyx.run.heads._rows import matrix
from sardonyx.signature import Array

_SCORE = re.compile("score|conf|prob", re.IGNORECASE)
_CLASS = re.compile("label|class|cls", re.IGNORECASE)
_COUNT = re.compile("num|count", re.IGNORECASE)
# The corners of a box in a picture of size one may stand out a little.
_UNIT_AT_MOST = 2.0


@dataclass(frozen=True)
class Parts:
    """The names of the outputs."""

    boxes: str
    scores: str
    labels: str
    count: str | None


def parts(raw: Raw) -> Parts | None:
    """Which output is which; None where the outputs are not these."""
    sizes = {name: _inner(array) for name, array in raw.outputs.items()}
    boxes = [name for name, size in sizes.items() if len(size) == 2 and size[1] == 4]
    if len(boxes) != 1 or not 3 <= len(sizes) <= 4:
        return None
    rows = sizes[boxes[0]][0]
    lists = [name for name in sizes if sizes[name] == (rows,)]
    rest = [name for name in sizes if name not in lists and name not in boxes]
    if len(lists) == 3 and rows == 1:  # one box: the count looks like a score
        rest = [name for name in lists if _COUNT.search(name)]
        lists = [name for name in lists if name not in rest]
    if len(lists) != 2 or len(rest) > 1 or any(raw.outputs[name].size != 1 for name in rest):
        return None
    labels = _labels(raw, lists)
    if labels is None:
        return None
    (scores,) = (name for name in lists if name != labels)
    return Parts(boxes[0], scores, labels, rest[0] if rest else None)


def found(raw: Raw) -> Parts:
    """The same, of outputs that are these."""
    which = parts(raw)
    assert which is not None, "asked before whether it can"
    return which


def _labels(raw: Raw, lists: list[str]) -> str | None:
    """Which of the two is the class: by type, by name, by values that are whole."""
    whole = [name for name in lists if raw.outputs[name].dtype.kind in "iu"]
    named = [name for name in lists if _CLASS.search(name) and not _SCORE.search(name)]
    valued = [name for name in lists if np.all(raw.outputs[name] == np.round(raw.outputs[name]))]
    return next((names[0] for names in (whole, named, valued) if len(names) == 1), None)


def decoded(raw: Raw, which: Parts, *, y_first: bool, first_class: int) -> Boxes:
    """The boxes in pixels of the input; without the rows after the count, which only fill up."""
    boxes = raw.outputs[which.boxes].reshape(-1, 4).astype(np.float32)
    scores = raw.outputs[which.scores].reshape(-1).astype(np.float32)
    labels = raw.outputs[which.labels].reshape(-1).astype(np.int64) - first_class
    if which.count is not None:
        count = int(raw.outputs[which.count].reshape(-1)[0])
        boxes, scores, labels = boxes[:count], scores[:count], labels[:count]
    return Boxes((boxes[:, [1, 0, 3, 2]] if y_first else boxes) * scale(raw, which.boxes), scores, labels, None)


def written(outputs: Mapping[str, Expr], raw: Raw, which: Parts, *, y_first: bool, first_class: int) -> Written:
    boxes = matrix(outputs[which.boxes], 4)
    ordered = op("Gather", boxes, [1, 0, 3, 2], axis=1) if y_first else boxes
    scores = op("Cast", op("Reshape", outputs[which.scores], [-1]), to=1)
    labels = op("Cast", op("Reshape", outputs[which.labels], [-1]), to=7) - first_class
    scaled = ordered * scale(raw, which.boxes)
    if which.count is None:
        return Written(scaled, scores, labels)
    count = op("Cast", op("Reshape", outputs[which.count], [1]), to=7)
    return Written(*(op("Slice", values, [0], count, [0]) for values in (scaled, scores, labels)))


def scale(raw: Raw, name: str) -> Array:
    """What makes pixels of the box's unit: the size of the input where boxes are shares of it, else one."""
    boxes = raw.outputs[name]
    shares = boxes.size > 0 and float(np.max(np.abs(boxes))) <= _UNIT_AT_MOST
    return np.array([raw.width, raw.height] * 2 if shares else [1] * 4, np.float32)


def _inner(array: object) -> tuple[int, ...]:
    """The shape without a batch of one; of what is no array none."""
    if not isinstance(array, np.ndarray):
        return ()
    return array.shape[1:] if array.ndim > 1 and array.shape[0] == 1 else array.shape
