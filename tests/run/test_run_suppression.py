"""Suppression against a brute-force oracle and against ONNX's own operator in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sardonyx.model import Model
from sardonyx.run.session import Session
from sardonyx.run.suppression import overlaps, suppress
from sardonyx.signature import Array

OPERATOR = """<ir_version: 8, opset_import: ["" : 17]>
nms (float[1,n,4] boxes, float[1,c,n] scores, float[1] overlap) => (int64[k,3] kept) {
    most = Constant<value = int64[1] {1000}>()
    floor = Constant<value = float[1] {0.0}>()
    kept = NonMaxSuppression(boxes, scores, most, overlap, floor) }"""


def scene(seed: int, count: int, classes: int = 3) -> tuple[Array, Array, Array]:
    """Boxes that overlap a lot, of a few classes, with some equal scores."""
    random = np.random.default_rng(seed)
    corner = random.integers(0, 40, (count, 2))
    boxes = np.concatenate([corner, corner + random.integers(0, 30, (count, 2))], axis=1).astype(np.float32)
    scores = (random.integers(1, 50, count) / 50).astype(np.float32)
    return boxes, scores, random.integers(0, classes, count)


def ratio(a: Array, b: Array) -> float:
    """Intersection over union of two boxes, pixel arithmetic by hand."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(wide, 0.0) * max(high, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


def brute_force(boxes: Array, scores: Array, labels: Array, overlap: float) -> list[int]:
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda each: (-scores[each], each)):
        rivals = [other for other in kept if labels[other] == labels[index]]
        if all(ratio(boxes[other], boxes[index]) <= overlap for other in rivals):
            kept.append(index)
    return kept


@given(st.integers(0, 10_000), st.integers(0, 60), st.sampled_from([0.0, 0.3, 0.45, 0.9]))
def test_it_keeps_what_brute_force_keeps(seed: int, count: int, overlap: float) -> None:
    boxes, scores, labels = scene(seed, count)
    assert suppress(boxes, scores, labels, overlap=overlap).tolist() == brute_force(boxes, scores, labels, overlap)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.5, 0.8])
def test_it_keeps_what_the_operator_of_onnx_keeps(overlap: float) -> None:
    session = Session(Model.from_text(OPERATOR))
    for seed in range(20):
        boxes, scores, labels = scene(seed, 80)
        matrix = np.where(labels == np.arange(3)[:, None], scores, 0)[None].astype(np.float32)
        kept = session({"boxes": boxes[None], "scores": matrix, "overlap": np.array([overlap], np.float32)})["kept"]
        assert sorted(kept[:, 2].tolist()) == sorted(suppress(boxes, scores, labels, overlap=overlap).tolist())


def test_classes_do_not_suppress_each_other() -> None:
    boxes = np.array([[0, 0, 10, 10]] * 3, np.float32)
    scores = np.array([0.5, 0.9, 0.7], np.float32)
    assert suppress(boxes, scores, np.array([0, 1, 0]), overlap=0.5).tolist() == [1, 2]


def test_a_suppression_that_forgets_the_class_would_be_caught() -> None:
    boxes, scores, labels = scene(0, 60)
    assert suppress(boxes, scores, np.zeros_like(labels), overlap=0.3).tolist() != brute_force(
        boxes, scores, labels, 0.3
    )


def test_overlaps_are_the_ratio_of_every_pair() -> None:
    boxes, _, _ = scene(3, 12)
    wanted = [[ratio(a, b) for b in boxes[:5]] for a in boxes]
    assert np.allclose(overlaps(boxes, boxes[:5]), wanted, atol=1e-6)
