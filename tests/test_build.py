"""Expressions write the nodes one would write by hand."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from sardonyx.build import Builder, op, ops
from sardonyx.errors import Internal


def _graph(*shape: int | str) -> tuple[ir.Graph, Builder]:
    graph = ir.Graph([ir.val("x", ir.DataType.FLOAT, shape)], [], nodes=[], opset_imports={"": 20}, name="g")
    return graph, Builder(graph, 20)


def _evaluate(graph: ir.Graph, x: np.ndarray) -> np.ndarray:
    return ReferenceEvaluator(ir.to_proto(ir.Model(graph, ir_version=10))).run(None, {"x": x})[0]


def test_arithmetic_appends_nodes_and_numbers_take_the_type() -> None:
    graph, build = _graph(2, "n")
    x = build.expr(graph.inputs[0])
    y = 3 - (x * x + 1) / 2 - -x
    graph.outputs.append(y.value)
    assert y.shape == (2, "n")
    assert y.dtype == ir.DataType.FLOAT
    value = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    np.testing.assert_allclose(_evaluate(graph, value), 3 - (value * value + 1) / 2 + value)


def test_comparisons_give_booleans_and_equal_constants_are_made_once() -> None:
    graph, build = _graph(2)
    x = build.expr(graph.inputs[0])
    assert ((x > 0) & ~(x < 0)).dtype == ir.DataType.BOOL
    assert len(graph.initializers) == 1


def test_lists_are_integers_and_several_outputs_come_back() -> None:
    graph, build = _graph(5, 2)
    left, right = ops(2, "Split", build.expr(graph.inputs[0]), [2, 3], axis=0)
    assert (left.shape, right.shape) == ((2, 2), (3, 2))


def test_new_names_avoid_those_of_the_model() -> None:
    graph, build = _graph(2)
    first = op("Exp", build.expr(graph.inputs[0]))
    again = Builder(graph, 20)
    second = op("Exp", again.expr(graph.inputs[0]))
    assert first.value.name != second.value.name
    assert first.value.producer().name != second.value.producer().name  # type: ignore[union-attr]


def test_what_cannot_be_built_says_why() -> None:
    graph, build = _graph(2)
    with pytest.raises(Internal, match="MatMul cannot be built"):
        build.expr(graph.inputs[0]) @ build.constant(np.ones((3, 3)), ir.DataType.FLOAT)
