"""Whether data is the same as last time: by its bytes, its code, its arrays or its columns."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.bundle.fingerprint import of_data


def test_equal_arrays_have_one_fingerprint_and_others_another() -> None:
    assert of_data({"x": np.arange(3)}) == of_data({"x": np.arange(3)})
    assert of_data({"x": np.arange(3)}) != of_data({"x": np.arange(3.0)})


@pytest.mark.heavy
def test_a_table_is_known_by_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, None], "b": ["x", "y"]})
    assert of_data(table) == of_data(table.copy())
    for other in (table.rename(columns={"a": "c"}), table.fillna({"a": 0.0}), table.assign(b=["x", "z"])):
        assert of_data(other) != of_data(table)
