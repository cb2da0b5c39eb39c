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


ESTIMATOR = {
    "inputs": [{"name": "X", "dtype": "float32", "shape": ["batch", 2], "dtypes": ["float32", "float64"]}],
    "example": {"X": [[1.5, 2.5], [3.5, 4.5]]},
}


def test_an_estimator_is_exported_for_the_precision_of_the_example():
    for kind in ("float32", "float64"):
        settled = settle([], {"X": np.ones((3, 2), kind)}, ESTIMATOR)
        assert settled.signature.inputs[0].dtype == kind
        assert settled.example["X"].dtype == kind


def test_a_type_that_is_not_accepted_becomes_the_described_one():
    assert settle([], {"X": np.ones((3, 2), np.float16)}, ESTIMATOR).signature.inputs[0].dtype == "float32"


def test_specs_have_the_last_word_on_precision():
    settled = settle(["X=float32[batch,2]"], {"X": np.ones((3, 2))}, ESTIMATOR)
    assert settled.example["X"].dtype == np.float32


def test_without_an_example_the_frameworks_own_is_taken():
    assert settle([], None, ESTIMATOR).example["X"].tolist() == ESTIMATOR["example"]["X"]
    wide = settle(["X=float64[batch,2]"], None, ESTIMATOR).example["X"]
    assert wide.dtype == np.float64
    assert wide.tolist() == ESTIMATOR["example"]["X"]


def test_a_fixed_batch_repeats_the_frameworks_own_example():
    settled = settle(["X=float32[3,2]"], None, ESTIMATOR)
    assert settled.example["X"].tolist() == [[1.5, 2.5], [3.5, 4.5], [1.5, 2.5]]


def test_an_example_of_other_inputs_is_left_alone():
    assert settle(["y=float32[batch,7]"], None, ESTIMATOR).example["y"].shape == (2, 7)
    assert settle(["X=float32[batch,7]"], None, ESTIMATOR).example["X"].shape == (2, 7)
