from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest

from sardonyx.view import statistics
from sardonyx.view.statistics import describe_weight
from sardonyx.view.statistics import statistics as statistics_of


def test_the_numbers_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).normal(2, 3, (20, 30)).astype(np.float32)
    values[0] = 0
    found = statistics_of(values)
    assert found["min"] == values.min()
    assert found["max"] == values.max()
    assert found["mean"] == pytest.approx(values.mean(dtype=np.float64))
    assert found["std"] == pytest.approx(values.std(dtype=np.float64))
    assert found["zeros"] == 30 / 600
    assert sum(found["histogram"]) == 600


def test_numbers_that_are_none_are_counted_apart() -> None:
    found = statistics_of(np.array([1.0, math.nan, math.inf, 3.0]))
    assert (found["not_finite"], found["min"], found["max"], found["mean"]) == (2, 1.0, 3.0, 2.0)
    assert "mean" not in statistics_of(np.array([math.nan]))


def test_one_value_repeated_has_a_histogram_of_one_bar() -> None:
    assert statistics_of(np.full(9, 5, np.int8))["histogram"] == [9]


def test_large_weights_are_looked_at_in_even_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST", 10)
    found = statistics_of(np.arange(100.0))
    assert found["looked_at"] == 10
    assert found["max"] == 90


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "INT4", "UINT8", "BOOL", "INT64", "FLOAT16"])
def test_every_type_of_weight_is_described(name: str) -> None:
    dtype = ir.DataType[name]
    tensor = ir.Tensor(np.array([0, 1, 1, 0]).astype(dtype.numpy()), dtype=dtype)
    found = describe_weight("w", tensor)
    assert found["shape"] == [4]
    assert found["statistics"]["zeros"] == 0.5
    assert [float(value) for value in found["values"]] == [0, 1, 1, 0]


def test_words_are_shown_and_not_counted() -> None:
    found = describe_weight("w", ir.StringTensor([b"cat", b"\xff"], shape=ir.Shape([2])))
    assert found["values"] == ["cat", "\ufffd"]
    assert "statistics" not in found


def test_an_empty_weight_has_no_statistics() -> None:
    assert "statistics" not in describe_weight("w", ir.Tensor(np.zeros((0, 3), np.float32)))
