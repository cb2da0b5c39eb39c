from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from sardonyx.errors import BadData, NotFound, UsageError
from sardonyx.run.inputs import Inputs, prepare
from sardonyx.signature import Signature

VOICE = Signature.parse(["input=float32[batch,sequence]", "state=float32[2,batch,4]", "sr=int64[]"])
ONE = Signature.parse(["x=float32[batch,3]"])


def given(signature: Signature, inputs: dict[str, Any], **options: Any) -> Inputs:
    return prepare(signature, inputs, **options)


def refused(signature: Signature, inputs: dict[str, Any], **options: Any) -> str:
    with pytest.raises(BadData) as caught:
        prepare(signature, inputs, **options)
    assert caught.value.hint.startswith("the model takes")
    return caught.value.message


def test_what_is_not_given_is_generated_and_said() -> None:
    inputs = given(VOICE, {"sr": "16000"}, sizes={"sequence": 8}, seed=3)
    assert inputs.generated == ("input", "state")
    assert inputs.arrays["input"].shape == (1, 8)
    assert inputs.arrays["sr"] == 16000
    assert inputs.arrays["sr"].dtype == np.int64
    assert inputs.origins == {"input": "generated, seed 3", "state": "generated, seed 3", "sr": "given, 16000"}


def test_a_given_array_settles_the_sizes_of_what_is_generated() -> None:
    inputs = given(VOICE, {"input": np.zeros((5, 8), np.float32)})
    assert inputs.arrays["state"].shape == (2, 5, 4)
    assert given(VOICE, {"input": "float32[7,9]"}).arrays["state"].shape == (2, 7, 4)


def test_a_shape_asks_for_a_generated_input() -> None:
    nameless = Signature.parse(["x=float32[?,?]"])
    inputs = given(nameless, {"x": "float32[2,5]"})
    assert inputs.arrays["x"].shape == (2, 5)
    assert inputs.generated == ("x",)
    assert "x: type int64, the model takes float32" in refused(nameless, {"x": "int64[2,5]"})
    assert "x: shape [5], the model takes [batch,3]" in refused(ONE, {"x": "float32[5]"})


def test_a_number_fills_an_input_that_is_no_scalar() -> None:
    inputs = given(VOICE, {"state": "0", "input": 0.5}, sizes={"batch": 3})
    assert inputs.arrays["state"].tolist() == np.zeros((2, 3, 4)).tolist()
    assert inputs.arrays["input"].dtype == np.float32
    assert inputs.origins["input"] == "filled with 0.5"
    assert inputs.generated == ("sr",)


def test_a_dimension_without_a_name_is_sized_by_its_place() -> None:
    nameless = Signature.parse(["x=float32[?,?]", "state=float32[2,?]"])
    inputs = given(nameless, {"state": 0}, sizes={"state.1": 3, "x.1": 5})
    assert inputs.arrays["x"].shape == (1, 5)
    assert inputs.arrays["state"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert nameless.dynamic == ["x.0", "x.1", "state.1"]


def test_lists_take_the_type_of_the_input() -> None:
    assert given(ONE, {"x": "[[1, 2, 3]]"}).arrays["x"].dtype == np.float32
    assert given(ONE, {"x": [[1, 2, 3]]}).arrays["x"].tolist() == [[1, 2, 3]]
    assert given(Signature.parse(["x=bool[2]"]), {"x": "[true, 0]"}).arrays["x"].tolist() == [True, False]
    assert given(Signature.parse(["x=float32[2]"]), {"x": "[NaN, 1]"}).arrays["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("spec", "text", "said"),
    [
        ("int64[1]", "[1.5]", "[1.5] does not fit int64"),
        ("uint8[]", "-1", "-1 does not fit uint8"),
        ("float32[2]", "[[1], [1, 2]]", "x: "),
        ("float32[2]", "[1, 2, 3]", "shape [3], the model takes [2]"),
        ("float32[2]", '["a", "b"]', "the model takes float32"),
        ("float32[2]", "nowhere.npy", "'nowhere.npy' is neither a file, nor a number"),
        ("string[2]", "[1, 2]", "the model takes string"),
        ("float32[2]", "", "'' is neither a file"),
        ("float32[2]", "[" * 100_000, "is neither a file"),
        ("float32[2]", "null", "type object, the model takes float32"),
        ("int64[]", "NaN", "does not fit int64"),
        ("int64[]", "1" + "0" * 30, "the model takes int64"),
    ],
)
def test_literals_that_do_not_fit_are_named(spec: str, text: str, said: str) -> None:
    assert said in refused(Signature.parse([f"x={spec}"]), {"x": text})


def test_strings_need_no_quotes() -> None:
    assert given(Signature.parse(["x=string[]"]), {"x": "hello there"}).arrays["x"].item() == "hello there"
    assert given(Signature.parse(["x=string[2]"]), {"x": '["a", "b"]'}).arrays["x"].tolist() == ["a", "b"]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_each_kind_of_file_gives_an_array(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    if suffix == ".npy":
        np.save(path, array)
    elif suffix == ".npz":
        np.savez(path, whatever=array)
    else:
        save_file({"whatever": array}, path)
    for value in (path, str(path)):
        inputs = given(ONE, {"x": value})
        assert np.array_equal(inputs.arrays["x"], array)
        assert inputs.origins["x"] == str(path)


def test_of_several_arrays_the_one_of_the_input_is_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 3)), other=np.ones(2))
    assert given(ONE, {"x": tmp_path / "a.npz"}).arrays["x"].shape == (1, 3)
    np.savez(tmp_path / "b.npz", p=np.zeros((1, 3)), q=np.ones(2))
    assert "none is called x: p, q" in refused(ONE, {"x": tmp_path / "b.npz"})


def test_an_image_is_fitted_and_said(tmp_path: Path) -> None:
    Image.new("RGB", (4, 2)).save(tmp_path / "a.png")
    inputs = given(Signature.parse(["x=float32[1,3,8,8]"]), {"x": str(tmp_path / "a.png")})
    assert inputs.arrays["x"].shape == (1, 3, 8, 8)
    assert "4x2 resized to 8x8" in inputs.origins["x"]


def test_a_file_that_exists_comes_before_a_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("7").open("wb") as file:
        np.save(file, np.full((1, 3), 2.5))
    assert given(ONE, {"x": "7"}).arrays["x"].tolist() == [[2.5, 2.5, 2.5]]
    assert given(ONE, {"x": "8"}).arrays["x"].tolist() == [[8, 8, 8]]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("[1, 2, 3]")
    assert "a.txt is neither a .npz" in refused(ONE, {"x": tmp_path / "a.txt"})
    assert "is a folder" in refused(ONE, {"x": tmp_path})
    np.savez(tmp_path / "none.npz")
    assert "holds no array" in refused(ONE, {"x": tmp_path / "none.npz"})


def test_data_gives_inputs_by_name_and_one_given_apart_comes_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", input=np.zeros((1, 8)), sr=8000, label=np.zeros(3))
    inputs = given(VOICE, {"sr": 16000}, data=tmp_path / "all.npz")
    assert inputs.arrays["sr"] == 16000
    assert inputs.origins["input"] == str(tmp_path / "all.npz")
    assert inputs.generated == ("state",)


def test_data_of_one_nameless_array_is_the_only_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    assert given(ONE, {}, data=tmp_path / "x.npy").arrays["x"].shape == (2, 3)
    assert "arr_0: the model has no such input" in refused(VOICE, {}, data=tmp_path / "x.npy")


def test_a_table_gives_inputs_by_column_and_says_which(tmp_path: Path) -> None:
    signature = Signature.parse(["age=float32[batch,1]", "city=string[batch,1]", "rate=int64[]"])
    (tmp_path / "rows.csv").write_text("city,label,age\nOslo,1,0.5\nRome,0,1.5\n")
    inputs = given(signature, {"rate": 3}, data=tmp_path / "rows.csv")
    assert inputs.arrays["age"].tolist() == [[0.5], [1.5]]
    assert inputs.arrays["city"].tolist() == [["Oslo"], ["Rome"]]
    assert inputs.origins["city"] == f"{tmp_path / 'rows.csv'}: column city"
    assert inputs.generated == ()
    assert given(signature, {}, data=tmp_path / "rows.csv").generated == ("rate",)


def test_a_table_may_be_one_input(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,c,label\n1,2,3,0\n4,5,6,1\n")
    inputs = given(ONE, {"x": str(tmp_path / "rows.csv")})
    assert inputs.arrays["x"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert inputs.origins["x"].endswith("columns a, b, c")
    (tmp_path / "few.csv").write_text("a,b\n1,2\n")
    assert "takes 3 columns of numbers, and there are 2: a, b" in refused(ONE, {"x": tmp_path / "few.csv"})


def test_data_may_be_a_dict_and_its_labels_may_have_any_name() -> None:
    arrays = {"x": np.zeros((2, 3)), "y": np.zeros(2)}
    assert given(ONE, {}, data=arrays, label="y").arrays["x"].shape == (2, 3)
    with pytest.raises(BadData) as caught:
        prepare(ONE, {}, data=arrays)
    assert "y: the model has no such input" in caught.value.message
    assert "--label y" in caught.value.hint


def test_data_that_is_not_one_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="is a folder"):
        prepare(ONE, {}, data=tmp_path)
    with pytest.raises(NotFound):
        prepare(ONE, {}, data=tmp_path / "nowhere.npz")


def test_one_error_names_every_problem(tmp_path: Path) -> None:
    np.save(tmp_path / "state.npy", np.zeros((3, 1, 4)))
    message = refused(VOICE, {"state": tmp_path / "state.npy", "sr": "1.5", "input": "gone.npy", "extra": 1})
    for line in (
        "extra: the model has no such input",
        "sr: 1.5 does not fit int64",
        "input: 'gone.npy' is neither",
        "state: shape [3,1,4], the model takes [2,batch,4]",
    ):
        assert line in message
    assert "missing" not in message


def test_sizes_that_name_nothing_or_disagree_are_refused() -> None:
    with pytest.raises(UsageError, match="no input has a dynamic dimension height") as caught:
        prepare(VOICE, {}, sizes={"height": 3})
    assert "batch, sequence" in caught.value.hint
    message = refused(VOICE, {"input": np.zeros((5, 8))}, sizes={"batch": 2})
    assert "input: batch is 5 here and 2 in the sizes asked for" in message


def test_names_with_colons_are_named_whole() -> None:
    signature = Signature.parse(["serving:0=float32[2]", "other:0=float32[2]"])
    message = refused(signature, {"serving:0": [1, 2, 3], "other:0": "gone.npy"})
    assert "serving:0: shape [3]" in message
    assert "other:0: 'gone.npy'" in message
