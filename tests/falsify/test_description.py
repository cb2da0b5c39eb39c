"""Descriptions under the user's own names of inputs."""

from __future__ import annotations

import numpy as np

from sardonyx.falsify.description import under_names
from sardonyx.falsify.estimator import estimator_probes
from sardonyx.signature import Signature, TensorSpec

DESCRIPTION = {
    "inputs": [{"name": "X", "dtype": "float32", "shape": ["batch", 2]}],
    "landmarks": {"X": [[1.0], [7.5]]},
    "paths": {
        "rows": {"X": [[0.0, 7.0], [2.0, 8.0]]},
        "edges": {"rows": {"X": [[1.0, 7.0]]}, "cells": [["X", 0]]},
        "exact": True,
    },
}


def _signature(*names: str) -> Signature:
    return Signature(tuple(TensorSpec(name, "float32", ("batch", 2)) for name in names), ())


def test_rows_and_landmarks_reach_an_input_that_the_user_named() -> None:
    found = under_names(DESCRIPTION, _signature("x"))
    probes = estimator_probes(_signature("x"), {"x": np.ones((4, 2), np.float32)}, found, 0)
    named = {probe.name: probe.arrays["x"] for probe in probes}
    assert [0.0, 7.0] in named["a row for every leaf"].tolist()
    assert 7.5 in np.concatenate([array[:, 1] for array in named.values()])
    assert found["inputs"] == DESCRIPTION["inputs"]


def test_rows_of_inputs_that_are_not_there_are_left_out() -> None:
    found = under_names(DESCRIPTION, _signature("a", "b"))
    assert found["paths"] == {"exact": True}
    assert found["landmarks"] == {}
    example = {name: np.ones((4, 2), np.float32) for name in "ab"}
    assert isinstance(estimator_probes(_signature("a", "b"), example, found, 0), list)
