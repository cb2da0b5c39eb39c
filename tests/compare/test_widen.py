"""The float64 twin against independent float64 arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from sardonyx.compare.flow import Flow
from sardonyx.compare.partial import assemble, execute
from sardonyx.compare.widen import NARROW, has_double_kernel, widen
from sardonyx.compare.widen_rules import RULES
from sardonyx.errors import InputError
from sardonyx.model import Model

RANDOM = np.random.default_rng(3)


def twin(proto: onnx.ModelProto, inputs: dict[str, Any]) -> list[np.ndarray]:
    flow = Flow.of(Model.from_proto(proto))
    part, feeds = assemble(flow, flow.outputs, inputs)
    wide = widen(part)
    taken = {value.name for value in wide.graph.input}
    found = execute(wide, {n if n in taken else n + NARROW: array for n, array in feeds.items()}, flow.outputs)
    return [found[name] for name in flow.outputs]


def one_node(
    op_type: str, shapes: list[tuple[int, ...]], opset: int = 17, **attributes: Any
) -> tuple[onnx.ModelProto, dict]:
    """A model of one operator: its first input is fed, the others are weights."""
    arrays = [RANDOM.standard_normal(shape).astype(np.float32) for shape in shapes]
    names = [f"i{index}" for index in range(len(arrays))]
    node = onnx.helper.make_node(op_type, names, ["y"], **attributes)
    fed = onnx.helper.make_tensor_value_info("i0", onnx.TensorProto.FLOAT, [None] * arrays[0].ndim)
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    weights = [onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays[1:], names[1:], strict=True)]
    graph = onnx.helper.make_graph([node], "g", [fed], [out], weights)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    return proto, {"i0": arrays[0]}


def in_double(proto: onnx.ModelProto, inputs: dict[str, Any]) -> np.ndarray:
    """onnx's own reference implementation, in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    for item in wide.graph.initializer:
        item.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(item).astype(np.float64), item.name))
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    [found] = ReferenceEvaluator(wide).run(None, {name: array.astype(np.float64) for name, array in inputs.items()})
    return found


CASES: dict[str, list[tuple[list[tuple[int, ...]], dict[str, Any]]]] = {
    "Conv": [
        ([(2, 3, 9, 8), (4, 3, 3, 3), (4,)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ([(1, 4, 9, 9), (4, 1, 3, 3)], {"group": 4, "dilations": [2, 2]}),
        ([(1, 6, 7, 7), (4, 3, 3, 3), (4,)], {"group": 2}),
        ([(2, 3, 20), (5, 3, 4), (5,)], {"strides": [3], "pads": [2, 1]}),
        ([(1, 2, 5, 6, 7), (3, 2, 2, 3, 2)], {}),
        ([(1, 2, 11, 10), (3, 2, 3, 4)], {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        ([(1, 2, 11, 10), (3, 2, 3, 4)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ([(1, 2, 11, 10), (3, 2, 3, 4)], {"auto_pad": "VALID"}),
        ([(2, 3, 300), (5, 3, 90), (5,)], {"strides": [7]}),
        ([(1, 4, 30, 28), (4, 2, 9, 10)], {"group": 2, "strides": [2, 3], "dilations": [1, 2], "pads": [1, 2, 3, 4]}),
        ([(1, 1, 6, 6), (2, 1, 1, 1)], {}),
    ],
    "GlobalAveragePool": [([(2, 3, 4, 5)], {}), ([(2, 3, 9)], {}), ([(1, 2, 3, 4, 5)], {})],
    "HardSigmoid": [([(3, 50)], {"alpha": 0.2, "beta": 0.5}), ([(3, 50)], {"alpha": 0.4, "beta": 0.3})],
    "LeakyRelu": [([(3, 5)], {}), ([(3, 5)], {"alpha": 0.3})],
    "PRelu": [([(2, 3, 4, 4), (3, 1, 1)], {})],
    "Softplus": [([(3, 50)], {})],
}  # fmt: skip


def test_every_rule_has_a_case():
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes"), [(op, *case) for op, cases in CASES.items() for case in cases]
)
def test_a_rule_computes_its_operator_in_float64(op_type, shapes, attributes):
    proto, inputs = one_node(op_type, shapes, **attributes)
    [found] = twin(proto, inputs)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, in_double(proto, inputs), rtol=1e-12, atol=1e-13)


def test_the_mean_takes_its_axes_as_newer_opsets_want_them():
    proto, inputs = one_node("GlobalAveragePool", [(2, 3, 4, 5)], opset=21)
    np.testing.assert_allclose(
        twin(proto, inputs)[0], inputs["i0"].astype(np.float64).mean((2, 3), keepdims=True), rtol=1e-14
    )


def test_an_operator_with_a_float64_kernel_runs_in_it():
    proto, inputs = one_node("MatMul", [(5, 64), (64, 7)])
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float64)
    np.testing.assert_allclose(twin(proto, inputs)[0], inputs["i0"].astype(np.float64) @ weight, rtol=1e-13, atol=1e-14)


def test_an_operator_without_one_is_an_island_of_float32():
    proto, inputs = one_node("Erf", [(4, 5)])
    [found] = twin(proto, inputs)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, in_double(proto, inputs), atol=2e-7)


def test_types_that_a_graph_names_are_widened_and_integers_are_not():
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (int64[n] x) => (float y, int64[n] z) <int64[1] two = {2}>
        {
          f = Cast <to = 1> (x)
          zeros = ConstantOfShape (two)
          half = Constant <value_float = 0.5> ()
          h = Mul(f, half)
          s = ReduceSum <keepdims = 0> (h)
          t = ReduceSum <keepdims = 0> (zeros)
          y = Add(s, t)
          z = Identity(x)
        }""")
    y, z = twin(proto, {"x": np.arange(5)})
    assert (y.dtype, z.dtype) == (np.float64, np.int64)
    assert y == 5.0


def test_bodies_of_branches_and_loops_are_widened():
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3] x, bool c) => (float[3] y) <float third = {0.33333334}>
        {
          y = If (c) <
            then_branch = t () => (float[3] a) { a = Mul(x, third) },
            else_branch = e () => (float[3] b) { o = Constant <value_float = 0.1> () b = Add(x, o) }
          >
        }""")
    x = np.float32([1, 2, 3])
    third, tenth = np.float64(np.float32(0.33333334)), np.float64(np.float32(0.1))
    np.testing.assert_array_equal(twin(proto, {"x": x, "c": np.array(True)})[0], x.astype(np.float64) * third)
    np.testing.assert_array_equal(twin(proto, {"x": x, "c": np.array(False)})[0], x.astype(np.float64) + tenth)


def test_half_precision_is_widened_too():
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float16[2,64] x) => (float16[2,64] y) { y = Softmax <axis = -1> (x) }""")
    x = RANDOM.standard_normal((2, 64)).astype(np.float16)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(twin(proto, {"x": x})[0], exact / exact.sum(-1, keepdims=True), rtol=1e-13)


def test_an_opset_that_is_too_old_is_declined():
    proto = onnx.parser.parse_model(
        '<ir_version: 4, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    with pytest.raises(InputError, match="opset 9"):
        widen(proto)


def test_the_runtime_is_believed_about_kernels_only_where_they_work():
    assert has_double_kernel("MatMul", 17)
    assert not has_double_kernel("Conv", 17)
    assert not has_double_kernel("LSTM", 17)
    assert not has_double_kernel("NoSuchOperator", 17)
