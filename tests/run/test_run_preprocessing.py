"""Pictures into inputs: where they lie, what their values become, and the same in a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sardonyx.build import Builder
from sardonyx.errors import BadData, NotFound, UsageError
from sardonyx.images import Layout
from sardonyx.model import Model
from sardonyx.run import labels
from sardonyx.run.embedding import _Picture
from sardonyx.run.preprocessing import MARGIN, RESIZES, Preprocessing, picture_for, place
from sardonyx.run.session import Session
from sardonyx.signature import Array, TensorSpec

SPEC = TensorSpec("x", "float32", (1, 3, 40, 30))
sides = st.integers(1, 500)


def noise(height: int, width: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@given(sides, sides, sides, sides)
def test_a_picture_that_fits_lies_inside_and_one_that_is_cut_covers(
    width: int, height: int, wide: int, high: int
) -> None:
    inside, around = (place((width, height), (wide, high), resize) for resize in ("fit", "crop"))
    assert inside.resized[0] <= wide
    assert inside.resized[1] <= high
    assert around.resized[0] >= wide
    assert around.resized[1] >= high
    for placed in (inside, around):
        assert placed.resized[0] == wide or placed.resized[1] == high
        scale = placed.resized[0] / width if placed.resized[0] == wide else placed.resized[1] / height
        assert abs(placed.resized[0] - width * scale) <= 1 or placed.resized[1] == high
        assert abs((wide - placed.resized[0]) - 2 * placed.left) <= 1


@given(sides, sides, st.sampled_from(RESIZES))
def test_boxes_find_their_way_back(width: int, height: int, resize: str) -> None:
    placed = place((width, height), (64, 48), resize)
    box = np.array([[0.25 * width, 0.25 * height, 0.75 * width, 0.75 * height]], np.float32)
    scale = np.array([placed.resized[0] / width, placed.resized[1] / height] * 2)
    there = box * scale + [placed.left, placed.top] * 2
    assert np.allclose(placed.back(there.astype(np.float32)), box, atol=1e-2 * max(1, width / 64, height / 48))


def test_a_letterbox_has_margins_and_the_picture_in_the_middle() -> None:
    picture = picture_for(np.full((10, 30, 3), 200, np.uint8), SPEC, Preprocessing("none", "fit"))
    column = picture.array[0, 0, :, 0]
    assert column.tolist() == [MARGIN] * 15 + [200] * 10 + [MARGIN] * 15


@pytest.mark.parametrize(
    ("normalize", "low", "high"), [("unit", 0, 1), ("minus-one", -1, 1), ("none", 0, 255), ("0.5,0.25", -2, 2)]
)
def test_values_span_what_the_normalisation_says(normalize: str, low: float, high: float) -> None:
    pixels = np.zeros((40, 30, 3), np.uint8)
    pixels[:20] = 255
    array = picture_for(pixels, SPEC, Preprocessing(normalize)).array
    assert (array.min(), array.max()) == pytest.approx((low, high))


def test_imagenet_is_the_mean_and_deviation_that_everybody_uses() -> None:
    array = picture_for(np.full((40, 30, 3), 255, np.uint8), SPEC, Preprocessing("imagenet")).array
    assert array[0, :, 0, 0] == pytest.approx([(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225], rel=1e-5)


def test_channels_can_be_turned_round() -> None:
    pixels = noise(40, 30)
    rgb, bgr = (picture_for(pixels, SPEC, Preprocessing("none", "stretch", order)).array for order in ("rgb", "bgr"))
    assert np.array_equal(rgb[:, ::-1], bgr)


def test_a_dynamic_size_is_the_one_asked_for_or_that_of_the_picture_rounded_up() -> None:
    spec = TensorSpec("x", "float32", (1, 3, "height", None))
    assert picture_for(noise(50, 70), spec, Preprocessing(), multiple=32).array.shape == (1, 3, 64, 96)
    assert picture_for(noise(50, 70), spec, Preprocessing(), sizes={"height": 20, "x.3": 24}).array.shape == (
        1,
        3,
        20,
        24,
    )


def test_whole_numbers_are_not_normalised() -> None:
    spec = TensorSpec("x", "uint8", (1, 40, 30, 3))
    assert np.array_equal(picture_for(noise(40, 30), spec, Preprocessing()).array[0], noise(40, 30))
    with pytest.raises(UsageError, match="takes whole numbers"):
        picture_for(noise(40, 30), spec, Preprocessing("imagenet"))


@pytest.mark.parametrize("words", ["nothing", "1", "0.5,0", "0.5,-1", "0.1,0.2,0.3", "nan,1", ""])
def test_a_normalisation_that_means_nothing_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="no normalisation"):
        Preprocessing(words)


def written(layout: Layout, how: Preprocessing) -> Session:
    """A model that does nothing but prepare a picture."""
    graph = ir.Graph([], [], nodes=[], name="prepare", opset_imports={"": 13})
    build = Builder(graph, 13)
    image = ir.val("x", ir.DataType.UINT8, ["height", "width", 3])
    graph.inputs.append(image)
    graph.outputs.append(_Picture(build, image, layout, how).input(ir.DataType.FLOAT).value)
    graph.sort()
    return Session(Model(ir.Model(graph, ir_version=8)))


@pytest.mark.parametrize("resize", RESIZES)
def test_the_graph_prepares_a_picture_as_pillow_does(resize: str) -> None:
    how = Preprocessing("none", resize)
    session = written(Layout("NCHW", 3, 40, 30), how)
    for seed, (height, width) in enumerate([(1, 1), (40, 30), (20, 15), (7, 300), (427, 640), (33, 61), (900, 80)]):
        pixels = noise(height, width, seed)
        (inside,) = session({"x": pixels}).values()
        away = np.abs(inside - picture_for(pixels, SPEC, how).array)
        # Both round a weighted mean of bytes to a byte; where it lies between two, float32 and Pillow's fixed point may part.
        assert away.max() <= 1
        assert (away > 0).mean() < 0.03


def test_a_graph_without_the_antialiasing_would_be_caught() -> None:
    """What a plain bilinear resize gives is far from what a widened filter gives."""
    pixels = noise(427, 640)
    plain = np.asarray(Image.fromarray(pixels).resize((30, 40), Image.Resampling.NEAREST)).transpose(2, 0, 1)[None]
    assert np.abs(plain - picture_for(pixels, SPEC, Preprocessing("none")).array).max() > 50


def test_labels_are_read_from_lines_lists_and_maps(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    for text in (
        "cat\ndog\n\n",
        '["cat", "dog"]',
        '{"1": "dog", "0": "cat"}',
        '{"0": ["n1", "cat"], "1": ["n2", "dog"]}',
    ):
        path.write_text(text)
        assert labels.read(path) == ("cat", "dog")


@pytest.mark.parametrize("text", ["cat\n\ndog", "", "[1, 2]", "{}", '{"a": "cat"}', '{"1": "cat"}', "[cat"])
def test_labels_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels"
    path.write_text(text)
    with pytest.raises(BadData):
        labels.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadData, match="is not text"):
        labels.read(path)
    with pytest.raises(NotFound):
        labels.read(tmp_path / "gone")


def test_labels_that_a_model_carries_may_be_anybodys() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Identity(x) }"""
    model = Model.from_text(text)
    assert labels.carried(model) is None
    for found, wanted in (
        ("{0: 'a', 1: 'b'}", ("a", "b")),
        ("['a']", ("a",)),
        ("a, b", None),
        ("__import__('os')", None),
    ):
        model.ir.metadata_props["names"] = found
        assert labels.carried(model) == wanted
