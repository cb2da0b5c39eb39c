"""Columns find their inputs by name, by kind and by order, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import columns, csv_file
from sardonyx.columns import assign
from sardonyx.dataset import Dataset
from sardonyx.errors import BadData, UsageError
from sardonyx.model import Model
from sardonyx.samples import Samples, probes_of
from sardonyx.signature import Signature

MATRIX = Signature.parse(["X=float32[batch,2]"])
TEXT = '<ir_version: 10, opset_import: ["": 20]> g (float[n,2] X) => (float[n,2] y) { y = Neg(X) }'


@pytest.fixture
def table(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        (tmp_path / "data.csv").write_text(text)
        return tmp_path / "data.csv"

    return write


def first(source: Any, signature: Signature, **options: Any) -> dict[str, Any]:
    return dict(next(iter(Samples.open(source, signature, **options))).inputs)


def refusal(source: Any, signature: Signature, **options: Any) -> BadData:
    with pytest.raises(BadData) as caught:
        Samples.open(source, signature, **options)
    return caught.value


def test_columns_named_like_the_inputs_go_into_them(table: Any) -> None:
    signature = Signature.parse(
        ["age=float32[batch,1]", "city=string[batch,1]", "rooms=int64[batch]", "new=bool[batch]"]
    )
    found = first(table("id,city,new,age,rooms\n9,Oslo,true,1.5,3\n8,,false,,4\n"), signature)
    assert found["age"].dtype == np.float32
    assert found["age"].shape == (2, 1)
    assert np.isnan(found["age"][1, 0])
    assert found["city"].tolist() == [["Oslo"], [""]]
    assert found["rooms"].tolist() == [3, 4]
    assert found["new"].tolist() == [True, False]


def test_a_matrix_takes_the_numbers_in_the_order_of_the_table(table: Any) -> None:
    found = first(table("name,b,label,a\nx,1,0,2\ny,3,1,4\n"), MATRIX)
    assert found["X"].tolist() == [[1, 2], [3, 4]]
    assert found["X"].dtype == np.float32


def test_a_matrix_takes_the_columns_in_the_order_asked_for(table: Any) -> None:
    found = first(table("c,b,a\n1,2,3\n"), MATRIX, columns=["a", "c"])
    assert found["X"].tolist() == [[3, 1]]
    error = refusal(table("c,b,a\n1,2,3\n"), MATRIX, columns=["a", "d"])
    assert "the columns d are missing" in error.message


def test_a_model_carries_the_order_through_its_file(table: Any, tmp_path: Path) -> None:
    model = Model.from_text(TEXT)
    columns.store(model.ir, {"X": ["a", "b"]})
    path = model.save(tmp_path / "m.onnx")
    for signature in (model.signature, Model.load(path).signature):
        assert signature.inputs[0].columns == ("a", "b")
        assert first(table("b,a,c\n1,2,3\n"), signature)["X"].tolist() == [[2, 1]]


def test_what_an_estimator_was_fitted_on_is_kept_where_it_makes_up_the_only_input() -> None:
    for names, kept in ((["a", "b"], ("a", "b")), (["a", "b", "c"], ()), ([], ())):
        model = Model.from_text(TEXT)
        columns.store_fitted(model.ir, names)
        assert model.signature.inputs[0].columns == kept


@pytest.mark.parametrize("text", ["{", "[1]", '{"X": 3}', '{"X": [1]}', "[" * 100_000])
def test_metadata_that_hold_something_else_are_passed_over(text: str) -> None:
    model = Model.from_text(TEXT)
    model.ir.metadata_props[columns.KEY] = text
    assert Model.from_proto(model.to_proto()).signature.inputs[0].columns == ()


def test_numbers_and_text_go_to_their_own_inputs(table: Any) -> None:
    signature = Signature.parse(["numbers=float32[batch,2]", "words=string[batch,2]"])
    found = first(table("w,a,v,b\nx,1,p,2\n"), signature)
    assert found["numbers"].tolist() == [[1, 2]]
    assert found["words"].tolist() == [["x", "p"]]


def test_text_written_in_digits_is_text_for_an_input_of_text(table: Any) -> None:
    found = first(table("zip,floor\n007,1\n"), Signature.parse(["X=string[batch,2]"]))
    assert found["X"].tolist() == [["007", "1"]]


def test_the_only_text_of_a_table_goes_into_the_only_input(table: Any) -> None:
    for shape in ("[batch]", "[batch,1]"):
        found = first(table("id,review,label\n1,so good,1\n"), Signature.parse([f"X=string{shape}"]))
        assert found["X"].ravel().tolist() == ["so good"]


def test_inputs_without_names_of_their_own_are_columns_by_position(table: Any) -> None:
    signature = Signature.parse(["x0=float32[batch,1]", "x1=string[batch,1]"])
    found = first(table("age,city,label\n1,Oslo,0\n"), signature)
    assert (found["x0"].tolist(), found["x1"].tolist()) == ([[1]], [["Oslo"]])


def test_an_input_of_several_values_is_not_filled_by_the_column_of_its_name(table: Any) -> None:
    found = first(table("x,y\n1,2\n"), Signature.parse(["x=float32[batch,2]"]))
    assert found["x"].tolist() == [[1, 2]]


def test_too_many_and_too_few_columns_are_listed_with_the_reason(table: Any) -> None:
    error = refusal(table("a,b,c\n1,2,3\n"), MATRIX)
    assert "X: takes 2 columns of numbers, and there are 3: a, b, c" in error.message
    error = refusal(table("a,b\n1,2\n2,=1+1\n"), MATRIX)
    assert "there are 1: a; not of numbers: b (row 2 holds '=1+1'" in error.message


def test_an_input_that_no_column_can_fill_is_named(table: Any) -> None:
    signature = Signature.parse(["ids=int64[batch,8]", "mask=int64[batch,8]"])
    message = refusal(table("a,b\n1,2\n"), signature).message
    assert "ids: missing (ids=int64[batch,8])" in message
    assert "mask: missing" in message


def test_columns_of_the_wrong_kind_are_named_with_their_row(table: Any) -> None:
    signature = Signature.parse(["age=int64[batch]", "floor=float32[batch]"])
    message = refusal(table("age,floor\n1,2\n,x\n"), signature).message
    assert "age: column 'age': row 2 is empty, and an integer cannot be missing" in message
    assert "floor: column 'floor': row 2 holds 'x', which is no number" in message


def test_labels_may_have_any_name_and_type(table: Any) -> None:
    file = table("a,b,y\n1,2,cat\n3,4,dog\n")
    (batch,) = Samples.open(file, MATRIX, label="y")
    assert batch.label is not None
    assert batch.label.tolist() == ["cat", "dog"]
    assert batch.inputs["X"].tolist() == [[1, 2], [3, 4]]
    assert "has no 'z'" in refusal(file, MATRIX, label="z").message


def test_a_missing_label_is_named_unless_labels_are_ignored(table: Any) -> None:
    file = table("a,b,label\n1,2,1\n3,4,\n")
    assert "column 'label': row 2 is empty, and a label cannot be missing" in refusal(file, MATRIX).message
    (batch,) = Samples.open(Dataset(file, ignored=True), MATRIX)
    assert batch.label is None
    assert set(batch.inputs) == {"X"}


def test_labels_of_another_name_get_the_advice_to_name_them(table: Any) -> None:
    advice = "say so with --label y (in Python label='y'), or call it 'label'"
    assert advice in refusal(table("a,b,y\n1,2,0\n"), MATRIX).hint
    arrays = {"X": np.zeros((2, 2)), "y": np.zeros(2)}
    assert advice in refusal(arrays, MATRIX).hint
    assert Samples.open(arrays, MATRIX, label="y").examples == 2
    assert "if" not in refusal({"X": np.zeros((2, 2)), "extra": np.zeros(2)}, MATRIX).hint
    with pytest.raises(BadData) as caught:
        list(Samples.open([arrays], MATRIX))
    assert advice in caught.value.hint


def test_data_without_labels_says_how_to_give_them(table: Any) -> None:
    file = table("a,b,target\n1,2,0\n")
    assert "--label target" in Samples.open(file, MATRIX, columns=["a", "b"]).label_hint
    assert "called 'label'" in Samples.open({"X": np.zeros((2, 2))}, MATRIX).label_hint


def test_labels_without_data_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no data"):
        Dataset.of(None, "y")
    assert Dataset.of(None) is None


def test_probes_have_the_precision_and_the_columns_of_the_data(table: Any) -> None:
    file = table("b,a,label\n" + "0.1,16777217,1\n" * 5)
    found = probes_of(file, MATRIX, limit=2, batch=2, columns=["a", "b"])
    assert [batch["X"].shape for batch in found] == [(2, 2), (2, 2)]
    assert found[0]["X"].dtype == np.float64
    assert found[0]["X"][0].tolist() == [16777217, 0.1], "which float32 does not hold"
    assert MATRIX.fit(found[0])["X"].dtype == np.float32


def test_probes_of_arrays_keep_float64_and_bring_the_rest_to_the_model() -> None:
    signature = Signature.parse(["x=float32[batch,2]", "n=int64[batch]"])
    arrays = {"x": np.full((3, 2), 1e300), "n": np.arange(3, dtype=np.int32), "y": np.zeros(3)}
    (found,) = probes_of(arrays, signature, label="y")
    assert found["x"].dtype == np.float64
    assert found["n"].dtype == np.int64
    (single,) = probes_of({**arrays, "x": np.zeros((3, 2), np.float32)}, signature, label="y")
    assert single["x"].dtype == np.float32


def test_a_wide_table_is_assigned_without_looking_at_pairs_of_columns(table: Any) -> None:
    names = [f"c{index}" for index in range(3000)]
    frame = csv_file.read(table(",".join(names) + "\n" + ",".join("1" * 3000) + "\n"))
    found = assign(frame, Signature.parse(["X=float32[batch,3000]"]))
    assert found.taken["X"] == names
