"""Marks see any element change, forgive rounding, and take little room."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest

from bundling import network
from sardonyx.bundle.marks import first_change, mark_tensors
from sardonyx.model import Model

MEMORY = 1 << 28
WIDE = """<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[n] y)
<float[1] w = {2.0}> { [double] d = Mul(x, w) [bend] t = Tanh(d) [back] y = Div(t, w) }"""


def rows(size: int = 100_000) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).normal(size=size).astype(np.float32)}


def test_a_model_that_is_the_same_shows_no_change() -> None:
    model = Model.from_text(WIDE)
    marks = mark_tensors(model, rows(), memory=MEMORY)
    assert [mark["node"] for mark in marks] == ["double", "bend", "back"]
    assert first_change(model, rows(), marks, memory=MEMORY) is None


@pytest.mark.parametrize("place", [0, 6250, 31_111, 99_999])
def test_one_element_of_many_is_seen(place: int) -> None:
    """Whether it is among the kept elements or not: the sums under signs see every one."""
    model = Model.from_text(WIDE)
    marks = mark_tensors(model, rows(), memory=MEMORY)
    inputs = rows()
    inputs["x"][place] += 1
    found = first_change(model, inputs, marks, memory=MEMORY)
    assert (found["node"], found["tensor"]) == ("double", "d")


def test_the_last_place_of_every_element_is_forgiven() -> None:
    model = Model.from_text(WIDE)
    marks = mark_tensors(model, rows(), memory=MEMORY)
    moved = {"x": np.nextafter(rows()["x"], np.float32(np.inf))}
    assert first_change(model, moved, marks, memory=MEMORY) is None


def test_an_infinite_value_that_was_finite_is_seen() -> None:
    model = Model.from_text(WIDE.replace("[back] y = Div(t, w)", "[back] y = Log(t)"))
    inputs = {"x": np.abs(rows(64)["x"]) + 1}
    marks = mark_tensors(model, inputs, memory=MEMORY)
    inputs["x"][3] = np.inf
    assert "not finite" in first_change(model, inputs, marks, memory=MEMORY)["why"]


def test_little_memory_gives_the_same_marks() -> None:
    model, inputs = network(), {"x": np.ones((3, 8), np.float32)}
    assert mark_tensors(model, inputs, memory=20_000) == mark_tensors(model, inputs, memory=MEMORY)
    marks = mark_tensors(model, inputs, memory=MEMORY)
    changed = network()
    value = changed.ir.graph.initializers["b"]
    assert value.const_value is not None
    value.const_value = ir.tensor(value.const_value.numpy() + np.float32(0.01), name="b")
    assert first_change(changed, inputs, marks, memory=1)["node"] == "second"


def test_a_mark_takes_a_few_hundred_bytes() -> None:
    marks = mark_tensors(Model.from_text(WIDE), rows(), memory=MEMORY)
    assert len(json.dumps(marks)) / len(marks) < 500
