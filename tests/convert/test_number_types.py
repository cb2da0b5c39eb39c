"""Repairs of number types: each mends its fault and stays away where the fault is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx.convert import repairs
from sardonyx.model import Model
from sardonyx.run.session import Session

HEAD = '<ir_version: 10, opset_import: ["": 18]> g'
EXTREMES = np.array([[2**62 + 1, -(2**62) + 5, 7], [2**53 + 1, 1, -3], [-(2**63), 2**63 - 1, 12]])


def repaired(text: str, types: dict[str, str], name: str) -> Model:
    found = dict(repairs.candidates(Model.from_text(f"{HEAD} {text}"), {"output_types": types}))
    assert name in found, f"offered: {list(found)}"
    return found[name]


def offered(text: str, types: dict[str, str]) -> list[str]:
    return [name for name, _ in repairs.candidates(Model.from_text(f"{HEAD} {text}"), {"output_types": types})]


def answer(model: Model, **inputs: Any) -> list[Any]:
    return list(Session(model)(inputs).values())


def test_an_output_gets_the_originals_type() -> None:
    model = repaired("(float[n] x) => (int32[n] y) { y = Cast <to = 6> (x) }", {"y": "float64"}, "output types cast")
    (found,) = answer(model, x=np.array([1.0, 2.0], np.float32))
    assert found.dtype == np.float64
    assert [spec.name for spec in model.signature.outputs] == ["y"]


def test_an_output_of_the_right_type_is_left_alone() -> None:
    assert offered("(float[n] x) => (float[n] y) { y = Neg(x) }", {"y": "float32"}) == []


def test_text_has_no_number_type() -> None:
    assert offered("(float[n] x) => (string[n] y) { y = Cast <to = 8> (x) }", {"y": "<U5"}) == []


def test_a_sum_is_widened_before_it_overflows() -> None:
    text = "(int32[n] x) => (int32 y) { y = ReduceSum <keepdims = 0> (x) }"
    model = repaired(text, {"y": "int64"}, "sums of integers in int64")
    (found,) = answer(model, x=np.array([2**31 - 1, 2**31 - 1, 5], np.int32))
    assert (found.dtype, int(found)) == (np.int64, 2**32 + 3)


def test_a_running_sum_is_widened() -> None:
    text = "(int32[n] x) => (int32[n] y) <int64 axis = {0}> { y = CumSum (x, axis) }"
    model = repaired(text, {"y": "int64"}, "sums of integers in int64")
    (found,) = answer(model, x=np.array([2**31 - 1, 2**31 - 1], np.int32))
    assert found.tolist() == [2**31 - 1, 2**32 - 2]


SMALL = {
    "Pow": ("(int8[n] x) => (int8[n] y) <int8 two = {2}> { y = Pow(x, two) }", lambda x: x**2),
    "Neg": ("(uint8[n] x) => (uint8[n] y) { y = Neg(x) }", lambda x: -x),
    "Where": ("(int16[n] x) => (int16[n] y) <int16 c = {9}> { p = Less(x, c) y = Where(p, c, x) }", lambda x: np.maximum(x, 9)),
    "Max": ("(int16[n] x) => (int16[n] y) <int16 c = {3}> { y = Max(x, c) }", lambda x: np.maximum(x, 3)),
    "ReduceMax": ("(int16[n] x) => (int16 y) { y = ReduceMax <keepdims = 0> (x) }", lambda x: x.max()),
    "ArgMax": ("(int16[n] x) => (int64 y) { y = ArgMax <keepdims = 0> (x) }", lambda x: x.argmax()),
    "matrix": ("(int8[2,2] x) => (int8[2,2] y) { y = MatMul(x, x) }", lambda x: x @ x),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small_integers_are_computed_where_the_runtime_has_them(name: str) -> None:
    text, right = SMALL[name]
    dtype = next(word for word in ("uint8", "int8", "int16") if f"({word}[" in text)
    x = np.array([[3, 125], [100, 7]] if name == "matrix" else [3, 125, 100, 7, 0]).astype(dtype)
    model = repaired(text, {}, "small integers computed in int32")
    (found,) = answer(model, x=x)
    expected = np.asarray(right(x))
    assert found.dtype == (np.int64 if name == "ArgMax" else dtype)
    np.testing.assert_array_equal(found, expected)


def test_truth_values_are_chosen_between() -> None:
    text = "(bool[n] c, bool[n] x, bool[n] z) => (bool[n] y) { y = Where(c, x, z) }"
    model = repaired(text, {}, "small integers computed in int32")
    c, x, z = (np.array(bits) for bits in ([1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 1, 0]))
    (found,) = answer(model, c=c.astype(bool), x=x.astype(bool), z=z.astype(bool))
    assert found.tolist() == [True, False, True, False]


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", ["", ", axes"])
def test_sums_of_int64_are_exact(axes: str, keep: int) -> None:
    shape = "[n,1]" if keep and axes else "[1,1]" if keep else "[n]" if axes else ""
    node = f"ReduceSum <keepdims = {keep}> (x{axes})"
    text = f"(int64[n,m] x) => (int64{shape} y) <int64[1] axes = {{1}}> {{ y = {node} }}"
    model = repaired(text, {}, "sums of int64 added up exactly")
    (found,) = answer(model, x=EXTREMES)
    np.testing.assert_array_equal(found, EXTREMES.sum(axis=1 if axes else None, keepdims=bool(keep)))


def test_a_sum_inside_a_branch_is_made_exact() -> None:
    text = """(bool c, int64[n] x) => (int64[1] y) {
        y = If (c) <then_branch = t () => (int64[1] a) { a = ReduceSum(x) },
                    else_branch = e () => (int64[1] b) { b = ReduceMax(x) }>
    }"""
    model = repaired(text, {}, "sums of int64 added up exactly")
    x = np.array([2**53 + 1, 2**53 + 1])
    assert answer(model, c=np.array(True), x=x)[0].tolist() == [2**54 + 2]
    assert answer(model, c=np.array(False), x=x)[0].tolist() == [2**53 + 1]


def test_sums_of_floats_are_left_alone() -> None:
    assert offered("(float[n] x) => (float[1] y) { y = ReduceSum(x) }", {}) == []
