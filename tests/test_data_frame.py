"""DataFrames, Arrow tables and Parquet files: values as they are, categories as what they stand for, gaps as gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import arrays, data_frame, registry
from sardonyx.errors import BadData, MissingExtra, UsageError
from sardonyx.frame import Frame

pytestmark = pytest.mark.heavy
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

PLAIN = {
    "double": np.array([1.1, np.nan]),
    "single": np.array([1.1, 2.2], np.float32),
    "small": np.array([1, 2], np.int8),
    "truth": np.array([True, False]),
    "word": ["a", None],
}


@pytest.fixture(params=["pandas", "polars", "arrow", "parquet"])
def frame(request: pytest.FixtureRequest, tmp_path: Path) -> Frame:
    if request.param == "pandas":
        return data_frame.of_object(pandas.DataFrame(PLAIN))
    if request.param == "polars":
        return data_frame.of_object(polars.DataFrame(PLAIN))
    if request.param == "arrow":
        return data_frame.of_object(pyarrow.table(PLAIN))
    pandas.DataFrame(PLAIN).to_parquet(tmp_path / "data.bin")
    found = arrays.open_arrays(tmp_path / "data.bin")
    assert isinstance(found, Frame)
    return found


def test_every_kind_gives_the_same_columns_in_their_own_precision(frame: Frame) -> None:
    assert list(frame) == list(PLAIN)
    assert [frame[name].values.dtype.name for name in frame] == ["float64", "float32", "int8", "bool", "object"]
    assert frame["double"].of_type("float32").tolist()[0] == 1.1
    assert np.isnan(frame["double"].of_type("float32")[1])
    assert frame["single"].of_type("float64").dtype == np.float32
    assert frame["small"].of_type("float32").dtype == np.float64
    assert frame["truth"].of_type("int64").tolist() == [1, 0]
    assert frame["word"].of_type("string").tolist() == ["a", ""]


def test_categories_are_the_values_that_they_stand_for() -> None:
    found = data_frame.of_object(
        pandas.DataFrame({"city": pandas.Categorical(["b", "a", None]), "floor": pandas.Categorical([30, 10, 10])})
    )
    assert found["city"].of_type("string").tolist() == ["b", "a", ""]
    assert found["floor"].of_type("int64").tolist() == [30, 10, 10]
    other = data_frame.of_object(polars.DataFrame({"city": polars.Series(["b", "a"], dtype=polars.Categorical)}))
    assert other["city"].of_type("string").tolist() == ["b", "a"]


def test_integers_with_gaps_are_floats_with_nan_and_no_integers() -> None:
    column = data_frame.of_object(pandas.DataFrame({"n": pandas.array([2**60 + 1, None], dtype="Int64")}))["n"]
    assert column.values[0] == 2**60 + 1
    assert np.isnan(column.of_type("float32")[1])
    with pytest.raises(ValueError, match="row 2 is empty"):
        column.of_type("int64")
    with pytest.raises(ValueError, match="row 2 is empty, and a label cannot be missing"):
        column.labels()
    assert np.isnan(column.plain()[1])


def test_whole_floats_are_integers_and_others_are_not() -> None:
    found = data_frame.of_object(pandas.DataFrame({"whole": [1.0, 2.0], "half": [1.0, 1.5], "flag": [0, 2]}))
    assert found["whole"].of_type("int32").tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"row 2 holds 1\.5, which is no integer"):
        found["half"].of_type("int32")
    with pytest.raises(ValueError, match="row 2 holds 2, which is neither true nor false"):
        found["flag"].of_type("bool")


def test_numbers_are_not_taken_for_text_nor_dates_for_either() -> None:
    found = data_frame.of_object(
        pandas.DataFrame({"n": [1, 2], "day": pandas.to_datetime(["2020-01-01", "2021-01-01"])})
    )
    with pytest.raises(ValueError, match="holds int64, and the model takes text"):
        found["n"].of_type("string")
    for wanted in ("float32", "string"):
        with pytest.raises(ValueError, match=r"timestamp.*neither numbers nor text"):
            found["day"].of_type(wanted)
    assert not found["day"].numeric


def test_a_series_is_a_table_of_one_column() -> None:
    assert list(data_frame.of_object(pandas.Series(["a"], name="text"))) == ["text"]
    assert data_frame.is_frame(polars.Series("x", [1]))
    assert not any(map(data_frame.is_frame, ({}, [], np.zeros(2), "file.csv", None)))


def test_columns_of_mixed_types_and_equal_names_are_refused() -> None:
    with pytest.raises(BadData, match="column 'mixed' cannot be read"):
        data_frame.of_object(pandas.DataFrame({"mixed": [1, "a"]}))
    with pytest.raises(BadData, match="several columns called 'a'"):
        data_frame.of_object(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(UsageError, match="no rows yet"):
        data_frame.of_object(polars.LazyFrame({"a": [1]}))


def test_a_parquet_file_that_is_cut_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole.parquet"
    pandas.DataFrame({"x": np.zeros(100_000)}).to_parquet(whole)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(BadData, match=r"cut\.parquet"):
        arrays.open_arrays(cut)
    monkeypatch.setattr("sardonyx.machine.memory_bytes", lambda: 1 << 14)
    with pytest.raises(BadData, match="100,000 rows, more than this machine's memory"):
        arrays.open_arrays(whole)


def test_without_the_extra_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas.DataFrame({"x": [1]}).to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(registry.EXTRAS, "data", ("no_such_package",))
    registry.installed.cache_clear()
    calls: list[Any] = [
        lambda: arrays.open_arrays(tmp_path / "a.parquet"),
        lambda: data_frame.of_object(pandas.DataFrame({"x": [1]})),
    ]
    try:
        for call in calls:
            with pytest.raises(MissingExtra, match="extra 'data'"):
                call()
    finally:
        registry.installed.cache_clear()
