import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sardonyx.model import Model
from sardonyx.run.outputs import FIRST, as_arrays, describe, table
from sardonyx.run.session import Session

PROBABILITIES = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (float[n,2] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(x) }"""
WORDS = PROBABILITIES.replace("int64s = [3, 5]", 'strings = ["no", "yes"]').replace("map(int64", "map(string")
PIECES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,2] x) => (seq(float[m,2]) y) { y = SplitToSequence(x) }"""


def outputs(text: str) -> dict[str, Any]:
    return Session(Model.from_text(text))({"x": np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)})


def test_numbers_are_summed_up() -> None:
    item = describe("y", np.array([[1.0, 2.0], [3.0, 6.0]], np.float32))
    assert item["dtype"] == "float32"
    assert item["shape"] == [2, 2]
    assert (item["min"], item["mean"], item["max"]) == (1, 3, 6)
    assert (item["nan"], item["inf"]) == (0, 0)
    assert item["first"] == [1, 2, 3, 6]


def test_nan_and_infinity_are_counted_and_kept_out_of_the_mean() -> None:
    item = describe("y", np.array([np.nan, np.inf, -np.inf, 1, 3], np.float16))
    assert (item["nan"], item["inf"]) == (1, 2)
    assert (item["min"], item["mean"], item["max"]) == (1, 2, 3)
    assert describe("y", np.full(2, np.nan))["mean"] is None


def test_a_half_precision_mean_does_not_overflow() -> None:
    assert describe("y", np.full(1000, 60000, np.float16))["mean"] == pytest.approx(60000, rel=1e-3)


@pytest.mark.parametrize(
    "array",
    [np.zeros(0, np.float32), np.array(3), np.array([True, False]), np.array(["a"], object), np.ones(2, np.complex64),
     np.ones(2, ml_dtypes.float8_e4m3fn), np.array([2**63], np.uint64)],
)  # fmt: skip
def test_every_type_can_be_shown_and_written_as_json(array: np.ndarray[Any, Any]) -> None:
    item = describe("y", array)
    assert json.dumps(item)
    assert item["shape"] == list(array.shape)
    assert len(table([item]).rows) == 1


def test_only_the_first_values_are_kept() -> None:
    assert describe("y", np.arange(1000))["first"] == list(range(FIRST))


def test_the_column_of_bad_values_is_there_only_when_there_are_any() -> None:
    good, bad = describe("y", np.ones(2)), describe("z", np.array([np.nan]))
    assert "NaN/Inf" not in table([good]).columns
    shown = table([good, bad, describe("s", np.array(["a"], object))])
    assert "NaN/Inf" in shown.columns
    assert [row[shown.columns.index("NaN/Inf")] for row in shown.rows] == ["0 / 0", "1 / 0", ""]


def test_the_probabilities_of_a_classifier_are_keys_and_values() -> None:
    found = outputs(PROBABILITIES)
    item = describe("y", found["y"])
    assert (item["dtype"], item["length"]) == ("sequence(map(int64,float32))", 2)
    assert table([item]).rows[0][-1] == "3: 0.25, 5: 0.75"
    written, refused = as_arrays(found)
    assert not refused
    assert written["y/keys"].tolist() == [3, 5]
    assert written["y/values"].tolist() == [[0.25, 0.75], [0.5, 0.5]]


def test_classes_may_be_words() -> None:
    found = outputs(WORDS)
    assert describe("y", found["y"])["dtype"] == "sequence(map(string,float32))"
    assert as_arrays(found)[0]["y/keys"].tolist() == ["no", "yes"]


def test_a_sequence_of_arrays_is_written_piece_by_piece() -> None:
    found = outputs(PIECES)
    assert describe("y", found["y"])["dtype"] == "sequence(float32)"
    written, _ = as_arrays(found)
    assert {name: array.tolist() for name, array in written.items()} == {"y/0": [[0.25, 0.75]], "y/1": [[0.5, 0.5]]}


def test_what_cannot_be_written_is_said() -> None:
    found = {"a": np.ones(1), "maps": [{1: 0.5}, {2: 0.5}], "nothing": None, "a/b": np.ones(2)}
    written, refused = as_arrays(found)
    assert set(written) == {"a", "a/b"}
    assert refused == {"maps": "a sequence(map(int64,float32))", "nothing": "a none"}


def test_pieces_never_take_the_name_of_another_output() -> None:
    written, refused = as_arrays({"y": [np.zeros(1)], "y/0": np.ones(1)})
    assert written["y/0"].tolist() == [1]
    assert refused == {"y": "another output is called y/0"}


def test_an_empty_sequence_is_shown() -> None:
    item = describe("y", [])
    assert (item["dtype"], item["length"]) == ("sequence(empty)", 0)
    assert table([item]).rows[0][1] == "sequence(empty) of 0"
