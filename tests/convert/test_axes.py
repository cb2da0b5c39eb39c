"""Negative axes of reductions are counted from the front, which gives empty batches the right shape."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.convert.axes import count_from_front
from sardonyx.model import Model
from sardonyx.run.session import Session

HEAD = '<ir_version: 8, opset_import: ["": {}]> g'
GRAPHS = {
    "ArgMax": (18, "(float[n,3] x) => (int64[n] y) { y = ArgMax <axis = -1, keepdims = 0> (x) }"),
    "ArgMin": (18, "(float[n,3] x) => (int64[n,1] y) { y = ArgMin <axis = -1> (x) }"),
    "a computed tensor": (18, "(float[n,3] x) => (int64[n] y) { e = Exp(x) y = ArgMax <axis = -1, keepdims = 0> (e) }"),
    "by an input": (18, "(float[n,3] x) => (float[n] y) <int64[1] a = {-1}> { y = ReduceMax <keepdims = 0> (x, a) }"),
    "by an attribute": (11, "(float[n,3] x) => (float[n] y) { y = ReduceMax <axes = [-1], keepdims = 0> (x) }"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_an_empty_batch_gets_the_right_shape_and_a_full_one_the_same_answer(name: str) -> None:
    opset, text = GRAPHS[name]
    model = Model.from_text(HEAD.format(opset) + text)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    (before,) = Session(model)({"x": x}).values()
    count_from_front(model)
    (after,) = Session(model)({"x": x}).values()
    (empty,) = Session(model)({"x": x[:0]}).values()
    np.testing.assert_array_equal(after, before)
    assert empty.shape == (0, *before.shape[1:])


def test_axes_of_unknown_rank_are_left_alone() -> None:
    text = "(float[n,3] x, int64[k] s) => (int64 y) { r = Reshape(x, s) y = ArgMax <axis = -1> (r) }"
    model = Model.from_text(HEAD.format(18) + text)
    count_from_front(model)
    assert [node.attributes.get_int("axis", 0) for node in model.ir.graph if node.op_type == "ArgMax"] == [-1]


def test_a_constant_that_others_read_is_not_changed() -> None:
    nodes = "y = ReduceMax <keepdims = 0> (x, a) z = Unsqueeze(x, a)"
    text = f"(float[n,3] x) => (float[n] y, float[n,3,1] z) <int64[1] a = {{-1}}> {{ {nodes} }}"
    model = Model.from_text(HEAD.format(18) + text)
    count_from_front(model)
    y, z = Session(model)({"x": np.ones((2, 3), np.float32)}).values()
    assert (y.shape, z.shape) == ((2,), (2, 3, 1))
