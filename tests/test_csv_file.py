"""CSV: every number exactly, every cell of its kind, and the line that is wrong by its number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sardonyx import csv_file
from sardonyx.errors import BadData
from sardonyx.frame import Frame


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data.csv"


def read(file: Path, text: str | bytes) -> Frame:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return csv_file.read(file)


def refused(file: Path, text: str | bytes) -> str:
    with pytest.raises(BadData) as caught:
        read(file, text)
    assert caught.value.hint
    assert str(file) in caught.value.message
    return caught.value.message


def test_a_column_has_the_plainest_kind_that_all_its_cells_have(file: Path) -> None:
    frame = read(file, "i,f,b,t,h\n1,1.5,true,x,7\n-2,1e3,False,=1+1,x\n")
    assert [column.values.dtype.kind for column in frame.values()] == ["i", "f", "b", "O", "O"]
    assert frame["i"].values.tolist() == [1, -2]
    assert frame["b"].values.tolist() == [True, False]
    assert frame["h"].values.tolist() == ["7", "x"]


def test_floats_are_read_to_the_last_bit(file: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=1000) * np.logspace(-300, 300, 1000)
    frame = read(file, "x\n" + "\n".join(map(repr, numbers.tolist())) + "\n")
    assert np.array_equal(frame["x"].values, numbers)


def test_missing_numbers_are_nan_and_missing_text_is_empty(file: Path) -> None:
    frame = read(file, "f,i,t,none\n1.5,1,a,\n,,,\nNA,n/a,NA,null\n")
    assert frame["f"].of_type("float32").tolist()[0] == 1.5
    assert np.isnan(frame["f"].of_type("float32")).tolist() == [False, True, True]
    assert np.isnan(frame["i"].of_type("float32")).tolist() == [False, True, True]
    assert np.isnan(frame["none"].of_type("float64")).all()
    assert frame["t"].of_type("string").tolist() == ["a", "", "NA"]
    with pytest.raises(ValueError, match="row 2 is empty, and an integer cannot be missing"):
        frame["i"].of_type("int64")


def test_numbers_are_text_as_written_where_text_is_wanted(file: Path) -> None:
    frame = read(file, "zip,price\n007,1.50\n 12 ,2\n")
    assert frame["zip"].of_type("int64").tolist() == [7, 12]
    assert frame["zip"].of_type("string").tolist() == ["007", " 12 "]
    assert frame["price"].of_type("string").tolist() == ["1.50", "2"]


def test_a_column_that_turns_to_another_kind_late_is_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "CHUNK", 2)
    frame = read(file, "a,b,c,d\n1,1,,x\n2,2,,y\n3,3.5,,z\n4,4,7,w\nx,5,8,v\n")
    assert frame["a"].of_type("string").tolist() == ["1", "2", "3", "4", "x"]
    assert frame["b"].values.tolist() == [1, 2, 3.5, 4, 5]
    assert frame["c"].of_type("float64").tolist()[3:] == [7, 8]
    assert np.isnan(frame["c"].of_type("float64")[:3]).all()
    assert frame["d"].of_type("string").tolist() == ["x", "y", "z", "w", "v"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_cells_may_be_separated_by_semicolons_or_tabs(file: Path, separator: str) -> None:
    frame = read(file, f'a{separator}"b, c"\n1{separator}"x{separator}y"\n'.replace("\n", "\r\n"))
    assert list(frame) == ["a", "b, c"]
    assert frame["b, c"].values.tolist() == [f"x{separator}y"]


def test_a_mark_at_the_start_blank_lines_and_the_index_of_pandas_are_passed_over(file: Path) -> None:
    frame = read(file, b"\xef\xbb\xbf,a,b\n0,1,2\n\n1,3,4\n")
    assert list(frame) == ["a", "b"]
    assert frame["a"].values.tolist() == [1, 3]
    assert list(read(file, "0,1,2\n5,6,7\n")) == ["0", "1", "2"]


def test_numbers_beyond_int64_are_floats_and_python_spellings_are_text(file: Path) -> None:
    frame = read(file, "big,under,script\n100000000000000000000,1_000,٣\n")
    assert frame["big"].values.tolist() == [1e20]
    assert frame["under"].textual
    assert frame["script"].textual


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n1,2,3\n", "line 3, has 3 cells, and the first line has 2"),
        ("a,b\n1\n", "line 2, has 1 cells"),
        ("a,a,b\n1,2,3\n", "several columns called 'a'"),
        ("1.5,2.5\n3,4\n", "holds numbers, not the names"),
        (",,\n1,2,3\n", "no line with the names"),
        ('a,b\n"never closed,1\n', "line 2: unexpected end of data"),
        ('a,b\n"x"y,1\n', "line 2: "),
        ("a\n" + "x" * 200_000 + "\n", "field larger than field limit"),
        ("a\ncaf\xe9\n".encode("latin-1"), "is not UTF-8: the byte 0xe9"),
        ("a,b\n1,2\n".encode("utf-16"), "holds UTF-16"),
        (b"a,b\n\x00\x01\n", "holds binary data"),
    ],
)
def test_a_file_that_is_no_table_is_named_with_its_line(file: Path, text: str | bytes, said: str) -> None:
    assert said in refused(file, text)


def test_a_wrong_byte_far_into_the_file_is_named_as_well(file: Path) -> None:
    assert "is not UTF-8" in refused(file, b"a\n" + b"1\n" * 100_000 + b"\xff\n")


def test_a_file_with_more_cells_than_memory_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.machine.memory_bytes", lambda: 1 << 16)
    assert "20,0" in refused(file, "a,b\n" + "1,2\n" * 10_000)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("=SUM(A1:A3)", "a formula is not computed here"),
        ("1,5", "write a point instead of the decimal comma"),
        ("x" * 100, "x" * 40 + "…"),
    ],
)
def test_text_among_numbers_is_named_with_its_row(file: Path, cell: str, said: str) -> None:
    frame = read(file, f'a\n1\n"{cell}"\n')
    with pytest.raises(ValueError, match="row 2 holds") as caught:
        frame["a"].of_type("float32")
    assert said in str(caught.value)
