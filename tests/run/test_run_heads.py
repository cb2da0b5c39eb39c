"""Every head is recognised among all others and gives the boxes that were written into it."""

from __future__ import annotations

import numpy as np
import pytest

import detections
from detections import HEIGHT, THINGS, VISIBLE, WAYS, WIDTH
from sardonyx import registry
from sardonyx.errors import BadData, UsageError
from sardonyx.run.detect import chosen, head_named, head_of
from sardonyx.run.heads._head import Raw
from sardonyx.signature import Arrays


def test_every_head_has_a_way_to_write_it() -> None:
    assert {way().head for way in WAYS.values()} == set(registry.names("sardonyx.run.heads"))


@pytest.mark.parametrize("labels", [None, detections.CLASSES])
@pytest.mark.parametrize("way", WAYS)
def test_the_head_is_found_by_its_outputs(way: str, labels: int | None) -> None:
    written = WAYS[way]()
    assert head_of(written.raw(labels)) == written.head


@pytest.mark.parametrize("way", WAYS)
def test_a_head_gives_the_boxes_that_were_written_into_it(way: str) -> None:
    written = WAYS[way]()
    head = head_named(written.head)
    assert written.suppressed == head.SUPPRESSED
    found = chosen(head.decode(written.raw()), score=0.25, overlap=0.45, limit=10, suppressed=head.SUPPRESSED)
    assert np.allclose(found.boxes, THINGS[VISIBLE, :4], atol=1e-3)
    assert np.allclose(found.scores, THINGS[VISIBLE, 4], atol=1e-5)
    assert found.labels.tolist() == THINGS[VISIBLE, 5].tolist()


def test_a_limit_keeps_the_best() -> None:
    found = chosen(
        head_named("scored").decode(detections.scored().raw()), score=0, overlap=1, limit=1, suppressed=False
    )
    assert found.scores.tolist() == pytest.approx([0.9])


def test_a_transposed_yolov8_is_known_by_the_number_of_labels() -> None:
    (array,) = detections.yolov8().outputs.values()
    raw = Raw({"output0": array.transpose(0, 2, 1)}, HEIGHT, WIDTH, detections.CLASSES)
    assert head_of(raw) == "yolov8"
    assert np.array_equal(
        head_named("yolov8").decode(raw).boxes, head_named("yolov8").decode(detections.yolov8().raw()).boxes
    )


@pytest.mark.parametrize("rows", [len(detections.grid()), 50], ids=["on the grid", "of no grid"])
def test_outputs_that_two_heads_explain_are_an_error_with_the_choices(rows: int) -> None:
    (array,) = detections.yolov8().outputs.values()
    wide = np.concatenate([array, array[:, -1:]], axis=1).transpose(0, 2, 1)[:, :rows]
    with pytest.raises(BadData, match=r"several heads: yolov5 \[1,N,5\+C\], yolov8") as caught:
        head_of(Raw({"output0": wide}, HEIGHT, WIDTH))
    assert "--head yolov5 or --head yolov8" in caught.value.hint
    assert head_of(Raw({"output0": wide}, HEIGHT, WIDTH), "yolov5") == "yolov5"
    assert head_of(Raw({"output0": wide}, HEIGHT, WIDTH, 3)) == "yolov5"
    assert head_of(Raw({"output0": wide}, HEIGHT, WIDTH, 4)) == "yolov8"


OTHERS: dict[str, Arrays] = {
    "a classifier": {"y": np.zeros((1, 1000), np.float32)},
    "a segmentation": {"y": np.zeros((1, 21, 64, 96), np.float32)},
    "a batch of two": {"y": np.zeros((2, 84, 8400), np.float32)},
    "two lists": {"a": np.zeros((1, 4), np.float32), "b": np.zeros((1, 7), np.float32)},
    "integers": {"y": np.zeros((1, 84, 126), np.int64)},
    "boxes without scores": {"boxes": np.zeros((1, 9, 4), np.float32)},
    "boxes and two unlike lists": {
        "boxes": np.zeros((1, 9, 4), np.float32), "scores": np.zeros((1, 9), np.float32), "other": np.zeros((1, 8), np.float32),
    },
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_detector_is_refused(what: str) -> None:
    with pytest.raises(BadData, match="no detector that is known here"):
        head_of(Raw(OTHERS[what], HEIGHT, WIDTH))


@pytest.mark.parametrize("head", registry.names("sardonyx.run.heads"))
@pytest.mark.parametrize("what", OTHERS)
def test_a_head_that_is_asked_for_is_refused_where_it_cannot_be(what: str, head: str) -> None:
    with pytest.raises(BadData, match=f"do not fit the head {head}"):
        head_of(Raw(OTHERS[what], HEIGHT, WIDTH), head)


def test_a_head_that_nobody_knows_is_named() -> None:
    with pytest.raises(UsageError, match="no head 'yolo99'"):
        head_named("yolo99")


def test_yolox_on_the_wrong_size_says_so() -> None:
    with pytest.raises(BadData, match="not the cells of YOLOX's grids"):
        head_named("yolox").decode(Raw(detections.yolox().outputs, HEIGHT + 64, WIDTH))
