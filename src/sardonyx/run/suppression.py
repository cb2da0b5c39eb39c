"""Non-maximum suppression: of boxes of one class that overlap, the best."""

from __future__ import annotations

import numpy as np

from sardonyx.signature import Array


def suppress(boxes: Array, scores: Array, labels: Array, *, overlap: float) -> Array:
    """The boxes to keep, by index, the best first; of equal scores the earlier one.

    Boxes are x0, y0, x1, y1. One is dropped when its intersection over union with a better one of its class is above
    `overlap`, as ONNX's NonMaxSuppression does for each class.
    """
    order = np.argsort(-scores, kind="stable")
    corners, kind = boxes[order].astype(np.float32), labels[order]
    areas = area(corners)
    alive = np.ones(len(order), bool)
    for best in range(len(order)):
        if alive[best]:
            rest = best + 1 + np.flatnonzero(alive[best + 1 :] & (kind[best + 1 :] == kind[best]))
            alive[rest] = _shared(corners[best], corners[rest], areas[best], areas[rest]) <= overlap
    return order[alive]


def area(boxes: Array) -> Array:
    sides = np.maximum(boxes[..., 2:] - boxes[..., :2], 0)
    product: Array = sides[..., 0] * sides[..., 1]
    return product


def overlaps(first: Array, second: Array) -> Array:
    """Intersection over union of every box of the first with every box of the second."""
    return _shared(first[:, None], second[None], area(first)[:, None], area(second)[None])


def _shared(box: Array, others: Array, its_area: Array, their_areas: Array) -> Array:
    both = np.concatenate([np.maximum(box, others)[..., :2], np.minimum(box, others)[..., 2:]], axis=-1)
    shared = area(both)
    union = its_area + their_areas - shared
    # Boxes without an area share nothing.
    ratio: Array = np.where(union > 0, shared / np.where(union > 0, union, 1), 0)
    return ratio
