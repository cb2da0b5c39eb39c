"""An example may be whatever the model is called with in Python: tensors, tuples, dicts, tables, files."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sardonyx.convert.example import example_of
from sardonyx.convert.inputs import settle
from sardonyx.errors import BadData
from sardonyx.signature import Signature, TensorSpec

ONE = [TensorSpec("x", "float32", None)]
TWO = [TensorSpec("x", "float32", None), TensorSpec("y", "float32", None)]
A, B = np.zeros((2, 3), np.float32), np.ones(4, np.float32)


def shapes(example: Any, specs: list[TensorSpec] = TWO, **options: Any) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in example_of(example, specs, **options).items()}


@dataclass
class Pair:
    left: Any
    right: Any


Point = namedtuple("Point", ["u", "v"])


def test_one_array_is_the_first_input_and_a_tuple_is_all_of_them_in_order() -> None:
    assert shapes(A) == {"x": (2, 3)}
    assert shapes((A, B)) == {"x": (2, 3), "y": (4,)}
    assert shapes([A, B]) == {"x": (2, 3), "y": (4,)}
    assert shapes((A, None)) == {"x": (2, 3)}
    assert shapes([[1.0, 2.0], [3.0, 4.0]], ONE) == {"x": (2, 2)}
    assert shapes((A, B), ONE, optional=["mask"]) == {"x": (2, 3), "mask": (4,)}


def test_what_lies_inside_is_called_by_its_path() -> None:
    assert shapes((A, (A, B))) == {"x": (2, 3), "y.0": (2, 3), "y.1": (4,)}
    assert shapes({"x": {"a": A, "deep": [B, {"k": A}]}}) == {"x.a": (2, 3), "x.deep.0": (4,), "x.deep.1.k": (2, 3)}
    assert shapes((Pair(A, B),)) == {"x.left": (2, 3), "x.right": (4,)}
    assert shapes((Point(A, B),)) == {"x.u": (2, 3), "x.v": (4,)}
    assert shapes({"x": (1, 2), "y": [[1, 2]]}) == {"x": (2,), "y": (1, 2)}


def test_a_model_that_takes_one_dict_is_handed_that_dict() -> None:
    assert shapes({"a": A, "b": B}, ONE) == {"x.a": (2, 3), "x.b": (4,)}
    inside = [TensorSpec("batch.a", "float32", None), TensorSpec("batch.b", "float32", None)]
    assert shapes({"a": A, "b": B}, inside) == {"batch.a": (2, 3), "batch.b": (4,)}
    assert shapes({"x": A}, ONE) == {"x": (2, 3)}
    assert shapes(UserDict(x=A, y=B)) == {"x": (2, 3), "y": (4,)}


def test_numbers_of_python_are_scalars_and_floats_are_single() -> None:
    found = example_of((A, 0.5), TWO)
    assert (found["y"].shape, found["y"].dtype) == ((), np.float32)
    assert example_of((A, 3), TWO)["y"].dtype == np.int64


def test_more_values_than_inputs_and_what_is_no_array_are_named() -> None:
    with pytest.raises(BadData, match="the example has 3 values, and the model takes 2: x, y"):
        example_of((A, B, A), TWO)
    with pytest.raises(BadData, match="the example of x is a object, which is no array"):
        example_of(object(), ONE)
    with pytest.raises(BadData, match="the example of x is no array"):
        example_of({"x": [[1.0], [1.0, 2.0]]}, ONE)


def test_without_any_names_values_are_numbered() -> None:
    assert shapes((A, B), []) == {"input_0": (2, 3), "input_1": (4,)}


def test_names_come_from_the_specs_else_from_the_framework() -> None:
    settled = settle(["u=float32[n,3]", "v=float32[4]"], (A, B), {"inputs": [{"name": "x"}]})
    assert settled.signature.input_names == ["u", "v"]
    described = {"inputs": [{"name": "x", "dtype": None, "shape": None}], "optional": ["mask"]}
    assert settle([], (A, B), described).signature.input_names == ["x", "mask"]


def test_a_table_is_an_example_in_the_order_of_the_estimator(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("b,a,label\n1,2,0\n3,4,1\n")
    description = {"inputs": [{"name": "X", "dtype": "float32", "shape": ["batch", 2]}], "columns": ["a", "b"]}
    settled = settle([], tmp_path / "rows.csv", description)
    assert settled.example["X"].tolist() == [[2, 1], [4, 3]]
    assert settled.dynamic == {"X": {"0": "batch"}}
    assert example_of(tmp_path / "rows.csv", ONE)["x"].dtype == np.float32
    with pytest.raises(BadData, match="takes 3 columns of numbers, and there are 2"):
        example_of(tmp_path / "rows.csv", list(Signature.parse(["X=float32[batch,3]"]).inputs))
    with pytest.raises(BadData, match="nothing says which inputs"):
        example_of(tmp_path / "rows.csv", [])


@pytest.mark.rest
@pytest.mark.heavy
def test_tensors_of_every_framework_are_arrays() -> None:
    torch = pytest.importorskip("torch")
    found = example_of(
        {"grad": torch.ones(2, requires_grad=True), "brain": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(3)},
        [],
    )
    assert [array.dtype for array in found.values()] == [np.float32, ml_dtypes.bfloat16, np.int64]
    jax = pytest.importorskip("jax")
    assert example_of((jax.numpy.ones((2, 3)),), ONE)["x"].shape == (2, 3)
    tensorflow = pytest.importorskip("tensorflow")
    assert example_of(tensorflow.constant([["a"]]), ONE)["x"].tolist() == [["a"]]
    assert example_of(tensorflow.Variable([1.0]), ONE)["x"].dtype == np.float32


NESTED = """import torch


class Nested(torch.nn.Module):
    def forward(self, pair, batch):
        return (pair[0] + pair[1]) * batch["x"]
"""


@pytest.mark.heavy
def test_a_nested_example_converts_a_live_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import sardonyx

    (tmp_path / "nested_module.py").write_text(NESTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    from nested_module import Nested

    x = torch.ones(2, 3)
    report = sardonyx.convert(Nested(), tmp_path / "m.onnx", example=((x, x), {"x": x}), route="trace")
    assert report.ok, report.to_text()
    assert [item["name"] for item in report["inputs"]] == ["pair.0", "pair.1", "batch.x"]
