"""What is where in a picture: the head is recognised, decoded, suppressed, and its boxes mapped back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from sardonyx import registry
from sardonyx.errors import BadData, UsageError
from sardonyx.report import Table
from sardonyx.run import labels as names
from sardonyx.run.heads._head import Boxes, Head, Raw
from sardonyx.run.suppression import suppress
from sardonyx.signature import Array, dims

_HEADS = "sardonyx.run.heads"


def heads() -> list[str]:
    return registry.names(_HEADS)


def head_named(name: str) -> Head:
    if name not in heads():
        raise UsageError(f"there is no head '{name}'", hint=f"use {', '.join(heads())}")
    return cast(Head, registry.load(_HEADS, name))


def head_of(raw: Raw, asked: str | None = None) -> str:
    """The head that the outputs are of: as asked, or the only one that fits best."""
    if asked is not None:
        if not head_named(asked).can(raw):
            raise BadData(
                f"the outputs do not fit the head {asked}, {head_named(asked).SHAPES}: {_shapes(raw)}",
                hint="leave --head out to have it found",
            )
        return asked
    able = {name: head_named(name).fits(raw) for name in heads() if head_named(name).can(raw)}
    best = [name for name, sure in able.items() if sure == max(able.values()) and sure]
    if len(best) == 1:
        return best[0]
    if best:
        choices = ", ".join(f"{name} {head_named(name).SHAPES}" for name in best)
        raise BadData(
            f"the outputs {_shapes(raw)} could be of several heads: {choices}",
            hint=f"say which: --head {' or --head '.join(best)}; --labels tells too, by their number",
        )
    raise BadData(
        f"the model is no detector that is known here; its outputs are {_shapes(raw)}",
        hint=f"known heads: {', '.join(heads())}; run without --task to see the outputs",
    )


def chosen(found: Boxes, *, score: float, overlap: float, limit: int, suppressed: bool) -> Boxes:
    """The boxes to show, the best first: above the score, and of those of one class that overlap the best."""
    above = np.flatnonzero(found.scores > score)
    boxes, scores, labels = found.boxes[above], found.scores[above], found.labels[above]
    order = np.argsort(-scores, kind="stable") if suppressed else suppress(boxes, scores, labels, overlap=overlap)
    kept = order[:limit]
    return Boxes(boxes[kept], scores[kept], labels[kept], found.classes)


def must_be_labelled(found: Boxes, labels: Sequence[str] | None) -> None:
    """Raises where the labels cannot be those of the classes."""
    if labels is None:
        return
    if found.classes is not None:
        names.must_count(labels, found.classes)
    elif found.labels.size and int(found.labels.max()) >= len(labels):
        raise BadData(
            f"there are {len(labels)} labels, and the model found a thing of class {int(found.labels.max())}",
            hint="give one label for each class, in their order, from class 0 on",
        )


def answer(boxes: Array, scores: Array, classes: Array, labels: Sequence[str] | None) -> list[dict[str, Any]]:
    """The JSON field `boxes`, in pixels of the picture."""
    return [
        {
            "label": names.named(labels, int(kind)),
            "score": float(score),
            "box": [round(float(side), 2) for side in box],
            "index": int(kind),
        }
        for box, score, kind in zip(boxes, scores, classes, strict=True)
    ]


def table(found: Sequence[Mapping[str, Any]]) -> Table:
    rows = tuple(
        (item["label"], f"{item['score'] * 100:.1f} %", *(round(side) for side in item["box"])) for item in found
    )
    return Table("boxes", ("class", "score", "left", "top", "right", "bottom"), rows)


def _shapes(raw: Raw) -> str:
    return ", ".join(f"{name} {dims(getattr(array, 'shape', ()))}" for name, array in raw.outputs.items())
