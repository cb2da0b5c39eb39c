from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sardonyx import registry
from sardonyx.quantize.histogram import BINS, Histogram
from sardonyx.quantize.subject import CALIBRATORS


def filled(*pieces: np.ndarray) -> Histogram:
    histogram = Histogram()
    for piece in pieces:
        histogram.add(np.asarray(piece, np.float32))
    return histogram


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60), st.integers(1, 7))
def test_pieces_give_what_the_whole_gives(values: list[float], pieces: int) -> None:
    whole = filled(np.array(values))
    parted = filled(*np.array_split(np.array(values), pieces))
    assert (parted.low, parted.high) == (whole.low, whole.high) == (np.float32(min(values)), np.float32(max(values)))
    assert parted.total == whole.total == len(values)
    if parted.span == whole.span and min(map(abs, values)) > 1e-20:
        mean = (whole.counts * whole.centres).sum() / whole.total
        assert abs(mean - np.mean(np.float32(values))) <= whole.width


def test_a_value_outside_the_span_widens_it_and_keeps_every_count() -> None:
    histogram = filled(np.linspace(-1, 1, 1001))
    histogram.add(np.array([100.0], np.float32))
    assert histogram.span == 128
    assert histogram.total == 1002
    inside = np.abs(histogram.centres) < 1.1
    assert histogram.counts[inside].sum() == 1001


def test_not_a_number_is_noticed_and_not_counted() -> None:
    histogram = filled(np.array([1.0, np.nan, np.inf, 2.0]))
    assert (histogram.strange, histogram.total, histogram.high) == (2, 2, 2.0)


def test_the_lowest_float_does_not_overflow() -> None:
    lowest = float(np.finfo(np.float32).min)
    histogram = filled(np.array([0.5, lowest]))
    assert histogram.low == lowest
    assert histogram.total == 2


@pytest.mark.parametrize("name", registry.names(CALIBRATORS))
def test_every_calibrator_stays_inside_what_was_seen_and_keeps_most_of_it(name: str) -> None:
    values = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    low, high = registry.load(CALIBRATORS, name).limits(filled(values))
    assert values.min() <= low < -2
    assert 2 < high <= values.max()


@pytest.mark.parametrize("name", ["percentile", "entropy", "mse"])
def test_a_calibrator_cuts_a_lonely_outlier_that_min_max_keeps(name: str) -> None:
    values = np.append(np.random.default_rng(0).standard_normal(200_000), 60.0)
    histogram = filled(values)
    assert registry.load(CALIBRATORS, "minmax").limits(histogram)[1] == 60
    assert registry.load(CALIBRATORS, name).limits(histogram)[1] < 50


@pytest.mark.parametrize("name", registry.names(CALIBRATORS))
@pytest.mark.parametrize("values", [np.zeros(10), np.full(10, 3.0), np.full(10, -3.0)])
def test_every_calibrator_answers_for_a_constant(name: str, values: np.ndarray) -> None:
    low, high = registry.load(CALIBRATORS, name).limits(filled(values))
    assert np.isfinite([low, high]).all()
    assert low <= high


def test_the_mean_squared_error_is_least_where_the_calibrator_says() -> None:
    values = np.append(np.random.default_rng(0).standard_normal(50_000), [12.0, -11.0]).astype(np.float32)
    limits = registry.load(CALIBRATORS, "mse").limits(filled(values))

    def error(low: float, high: float) -> float:
        step = (high - low) / 255
        return float(((np.clip(np.rint(values / step) * step, low, high) - values) ** 2).mean())

    assert error(*limits) < error(values.min(), values.max())
    assert error(*limits) < error(-1, 1)
    assert BINS == 4096
