import numpy as np
import pytest

from sardonyx.convert.inputs import settle
from sardonyx.errors import BadData, UsageError

DESCRIBED = {"inputs": [{"name": "x", "dtype": "float32", "shape": [None, 4]}]}
NAMES_ONLY = {"inputs": [{"name": "image", "dtype": None, "shape": None}]}


def test_specs_say_what_is_dynamic():
    settled = settle(["x=float32[batch,3,8,8]"], None, {})
    assert settled.dynamic == {"x": {"0": "batch"}}
    assert settled.example["x"].shape == (2, 3, 8, 8)


def test_what_the_framework_says_is_enough():
    settled = settle([], None, DESCRIBED)
    assert settled.dynamic == {"x": {"0": "batch"}}
    assert settled.example["x"].shape == (2, 4)


def test_an_example_alone_fixes_every_dimension():
    settled = settle([], {"x": np.ones((3, 4), np.float32)}, {})
    assert settled.dynamic == {}
    assert settled.signature.inputs[0].shape == (3, 4)


def test_an_example_keeps_the_dimensions_that_the_framework_leaves_open():
    settled = settle([], {"x": np.ones((3, 4), np.float32)}, DESCRIBED)
    assert settled.dynamic == {"x": {"0": "batch"}}
    assert settled.example["x"].shape == (3, 4)


def test_unknown_shapes_are_asked_for_by_name():
    with pytest.raises(UsageError, match="shape of image is not known") as caught:
        settle([], None, NAMES_ONLY)
    assert "--input image=float32[" in caught.value.hint


def test_an_example_of_the_wrong_shape_is_named():
    with pytest.raises(BadData, match=r"x: shape \[3,5\], the model takes \[batch,4\]"):
        settle(["x=float32[batch,4]"], {"x": np.ones((3, 5), np.float32)}, {})
