"""Rows of numbers around what an estimator says about itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.falsify.features import around
from sardonyx.signature import Signature

SINGLE = Signature.parse(["X=float32[batch,3]"])
DOUBLE = Signature.parse(["X=float64[batch,3]"])
DESCRIPTION: dict[str, Any] = {
    "landmarks": {"X": [[0.5, 1.5], [], [-2.0]]},
    "allow_nan": True,
    "infinite": True,
    "paths": {
        "rows": {"X": [[0.1, 7.0, -3.0], [2.0, 8.0, 1.0]]},
        "edges": {"rows": {"X": [[0.1, 7.0, -2.0], [1.5, 8.0, 1.0]]}, "cells": [["X", 2], ["X", 0]]},
    },
}


def drawn(signature=SINGLE, description=DESCRIPTION):
    example = {"X": np.zeros((2, 3), signature.inputs[0].numpy_dtype)}
    return {
        name: arrays["X"] for name, arrays in around(signature, example, description, np.random.default_rng(0)).items()
    }


def test_batches_have_the_type_of_the_signature():
    assert {array.dtype for array in drawn(SINGLE).values()} == {np.dtype(np.float32)}
    assert {array.dtype for array in drawn(DOUBLE).values()} == {np.dtype(np.float64)}


def test_the_rows_of_the_paths_come_as_they_are():
    assert np.array_equal(drawn(DOUBLE)["a row for every leaf"], DESCRIPTION["paths"]["rows"]["X"])


def test_only_the_cell_of_the_split_is_moved_by_one_float():
    for signature, kind in ((SINGLE, np.float32), (DOUBLE, np.float64)):
        found = drawn(signature)
        at = found["at the threshold of every split"]
        above = found[f"one {kind.__name__} above the threshold of every split"]
        changed = np.argwhere(at != above).tolist()
        assert changed == [[0, 2], [1, 0]]
        assert above[0, 2] == np.nextafter(kind(-2.0), kind(np.inf))


def test_float32_has_no_finer_steps():
    assert not any("float64" in name or "finer" in name for name in drawn(SINGLE))
    assert "one float64 below the threshold of every split" in drawn(DOUBLE)


def test_a_threshold_between_two_float32_is_stepped_to_both():
    description = {"paths": {"edges": {"rows": {"X": [[0.1, 0.0, 0.0]]}, "cells": [["X", 0]]}}}
    found = drawn(DOUBLE, description)
    near = np.float32(0.1)
    assert float(near) > 0.1
    assert found["one float32 above the threshold of every split"][0, 0] == near
    assert found["one float32 below the threshold of every split"][0, 0] == np.nextafter(near, np.float32(0))


def test_values_finer_than_float32_do_not_survive_it():
    fine = drawn(DOUBLE)["finer than float32"]
    assert (fine[:, 0] != fine[:, 0].astype(np.float32)).all()


def test_a_split_meets_a_missing_value_in_its_own_column():
    holes = np.argwhere(np.isnan(drawn()["missing at every split"])).tolist()
    assert holes == [[0, 2], [1, 0]]


def test_every_column_and_every_combination_is_missing_once():
    assert np.array_equal(np.isnan(drawn()["one value missing"]), np.eye(3, dtype=bool))
    several = {tuple(row) for row in np.isnan(drawn()["several values missing"]).tolist()}
    assert len(several) == 2**3
    assert np.isnan(drawn()["all values missing"]).all()


def test_columns_that_refuse_missing_values_keep_theirs():
    found = drawn(description={**DESCRIPTION, "missing": {"X": [1]}})
    assert set(np.argwhere(np.isnan(found["several values missing"]))[:, 1].tolist()) == {1}


def test_infinities_of_both_signs_are_in_every_column():
    found = drawn()["infinite values"]
    assert all({np.inf, -np.inf} <= set(found[:, column].tolist()) for column in range(3))
    assert "infinite values" not in drawn(description={"landmarks": DESCRIPTION["landmarks"]})


def test_category_codes_are_visited_and_left():
    found = drawn(description={"categories": {"X": [[0, 1, 2, 5], [], []]}})
    assert set(found["every category code"][:, 0].tolist()) == {0, 1, 2, 5}
    assert not {0, 1, 2, 5} & set(found["unknown category codes"][:, 0].tolist())
    assert (found["negative category codes"][:, 0] < 0).all()
    assert (found["category codes with fractions"][:, 0] % 1 != 0).all()


def test_integers_stay_integers():
    signature = Signature.parse(["n=int64[batch,2]"])
    found = around(
        signature, {"n": np.ones((2, 2), np.int64)}, {"categories": {"n": [[1, 2], []]}}, np.random.default_rng(0)
    )
    assert {array.dtype for arrays in found.values() for array in arrays.values()} == {np.dtype(np.int64)}


def test_a_frame_is_drawn_row_by_row():
    signature = Signature.parse(["size=float64[batch,1]", "colour=string[batch,1]"])
    example = {"size": np.array([[1.0], [2.0]]), "colour": np.array([["one"], ["two"]], dtype=object)}
    paths = {"rows": {"size": [[3.0], [4.0]], "colour": [["red"], ["blue"]]}}
    found = around(signature, example, {"paths": paths, "allow_nan": True}, np.random.default_rng(0))
    assert found["a row for every leaf"]["colour"].tolist() == [["red"], ["blue"]]
    rows = set(zip(found["whole numbers"]["size"].ravel(), found["whole numbers"]["colour"].ravel(), strict=True))
    assert rows == {(1, "one"), (2, "two"), (3, "red"), (4, "blue")}


def test_a_fixed_batch_keeps_its_size():
    fixed = Signature.parse(["X=float32[2,3]"])
    assert {array.shape for array in drawn(fixed).values()} == {(2, 3)}


def test_images_and_sequences_are_left_alone():
    signature = Signature.parse(["x=float32[batch,3,8,8]"])
    assert around(signature, {"x": np.zeros((1, 3, 8, 8), np.float32)}, {}, np.random.default_rng(0)) == {}
