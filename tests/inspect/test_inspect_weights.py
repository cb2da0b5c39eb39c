"""What counts as a parameter, and what is only an index, a shape or a scale."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.inspect.summary import dissect
from sardonyx.inspect.weights import weights
from sardonyx.model import Model


def parameters(nodes: list[onnx.NodeProto], tensors: dict[str, np.ndarray], *, domain: str = "") -> int:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    imports = [helper.make_opsetid("", 21), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return dissect(Model.from_proto(helper.make_model(graph, opset_imports=imports, ir_version=10)), {}).parameters


def test_weights_in_constant_nodes_count_like_initializers() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[1,2] x) => (float[1,2] y) %s'
    constant = text % "{ w = Constant<value = float[2,2] {1.0,2.0,3.0,4.0}>() y = MatMul(x, w) }"
    initializer = text % "<float[2,2] w = {1.0,2.0,3.0,4.0}> { y = MatMul(x, w) }"
    assert (
        dissect(Model.from_text(constant), {}).parameters == dissect(Model.from_text(initializer), {}).parameters == 4
    )


def test_weights_inside_branches_count() -> None:
    model = Model.from_text(
        """<ir_version: 10, opset_import: ["": 21]> g (float[2] x, bool c) => (float[2] y) {
        y = If(c) <then_branch = t () => (float[2] a) { w = Constant<value = float[2] {1.0,2.0}>() a = Mul(x, w) },
                   else_branch = e () => (float[2] b) { v = Constant<value = float[1] {1.0}>() b = Mul(x, v) }> }"""
    )
    assert dissect(model, {}).parameters == 3


def test_shapes_and_indices_are_no_parameters() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    assert parameters([node], {"s": np.array([2, 2], np.int64)}) == 0


def test_a_lone_number_is_a_literal_and_no_parameter() -> None:
    nodes = [helper.make_node("Mul", ["x", "half"], ["y"])]
    assert parameters(nodes, {"half": np.float32(0.5).reshape(())}) == 0
    assert parameters(nodes, {"half": np.float32(0.5).reshape((1,))}) == 1


def test_quantized_weights_count_by_elements_and_their_scales_do_not() -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    tensors = {"w": np.ones((8, 4), np.int8), "s": np.float32(0.1).reshape(()), "z": np.int8(0).reshape(())}
    assert parameters(nodes, tensors) == 32


def test_a_bias_of_32_bits_counts_and_an_index_of_32_bits_does_not() -> None:
    dequantized = [helper.make_node("DequantizeLinear", ["b", "s"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])]
    assert parameters(dequantized, {"b": np.ones(4, np.int32), "s": np.float32(0.1).reshape(())}) == 4
    assert parameters([helper.make_node("Gather", ["x", "i"], ["y"])], {"i": np.ones(4, np.int32)}) == 0


@pytest.mark.parametrize("width", [64, 50])
def test_weights_packed_into_bits_count_as_the_matrix_they_hold(width: int) -> None:
    blocks = -(-width // 32)
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=width, N=10, bits=4, block_size=32
    )
    tensors = {"b": np.ones((10, blocks, 16), np.uint8), "s": np.ones(10 * blocks, np.float32)}
    assert parameters([node], tensors, domain="com.microsoft") == 10 * width


def test_learned_numbers_in_attributes_count() -> None:
    model = Model.from_text(
        """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]> g (float[1,3] x) => (float[1,1] y)
        { y = ai.onnx.ml.LinearRegressor<coefficients=[1.0,2.0,3.0], intercepts=[0.5], targets=1>(x) }"""
    )
    assert dissect(model, {}).parameters == 4


def test_bytes_are_those_that_are_stored() -> None:
    model = Model.from_text(
        '<ir_version: 10, opset_import: ["": 21]> g (float16[1,2] x) => (float16[1,2] y) '
        "<float16[2,2] w = {1,2,3,4}> { y = MatMul(x, w) }"
    )
    assert [(weight.name, weight.nbytes, weight.parameters) for weight in weights(model.ir)] == [("w", 8, 4)]
