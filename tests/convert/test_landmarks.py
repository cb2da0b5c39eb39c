import numpy as np

from sardonyx.convert.landmarks import around
from sardonyx.signature import Signature

SIGNATURE = Signature.parse(["X=float32[batch,3]"])
EXAMPLE = {"X": np.zeros((2, 3), np.float32)}
LANDMARKS = {"X": [[0.5, 1.5], [], [-2.0]]}


def drawn():
    return around(SIGNATURE, EXAMPLE, LANDMARKS, np.random.default_rng(0))


def test_every_feature_with_landmarks_is_put_on_one_and_the_others_stay():
    at = drawn()["at the thresholds"]["X"]
    assert set(np.unique(at[:, 0])) == {0.5, 1.5}
    assert set(np.unique(at[:, 1])) == {0.0}
    assert set(np.unique(at[:, 2])) == {-2.0}


def test_the_neighbours_are_one_float_away():
    found = drawn()
    at = found["at the thresholds"]["X"]
    assert (found["one float below the thresholds"]["X"] == np.nextafter(at, np.float32(-np.inf))).all()
    assert (found["one float above the thresholds"]["X"] == np.nextafter(at, np.float32(np.inf))).all()


def test_values_between_lie_on_no_threshold():
    between = drawn()["between the thresholds"]["X"]
    assert not np.isin(between[:, 0], np.float32([0.5, 1.5])).any()
    assert between.dtype == np.float32


def test_without_landmarks_there_is_nothing_to_draw():
    assert around(SIGNATURE, EXAMPLE, {"X": [[], [], []]}, np.random.default_rng(0)) == {}


def test_a_fixed_batch_keeps_its_size():
    fixed = Signature.parse(["X=float32[2,3]"])
    assert around(fixed, EXAMPLE, LANDMARKS, np.random.default_rng(0))["at the thresholds"]["X"].shape == (2, 3)
