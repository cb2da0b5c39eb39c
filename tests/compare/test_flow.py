"""Flat steps, and partial runs over them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from sardonyx.compare.flow import Flow
from sardonyx.compare.partial import Trace, assemble, tensor_bytes
from sardonyx.errors import RuntimeRefused
from sardonyx.model import Model
from sardonyx.run.session import Session

CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1, 2, 3, 4}>
{
  [m] m = MatMul(x, w)
  [one] one = Constant <value_float = 1.0> ()
  [a] a = Add(m, one)
  [unused] u = Neg(x)
  [r] y = Relu(a)
}"""

NESTED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, bool outer, bool inner) => (float[2] y, float[2] z)
{
  [first] y = If (outer) <
    then_branch = a () => (float[2] t) {
      [double] d = Add(x, x)
      [second] t = If (inner) <
        then_branch = b () => (float[2] p) { [negate] p = Neg(d) },
        else_branch = c () => (float[2] q) { [keep] q = Identity(d) }
      >
    },
    else_branch = e () => (float[2] f) { [absolute] f = Abs(x) }
  >
  [third] z = If (outer) <
    then_branch = h () => (float[2] t) { [square] d = Mul(x, x) [halve] t = Add(d, d) },
    else_branch = i () => (float[2] k) { [same] k = Identity(x) }
  >
}"""


def trace(text: str, **inputs) -> Trace:
    return Trace(Flow.of(Model.from_text(text)), inputs)


def test_constants_and_initializers_are_weights_and_not_steps():
    flow = Flow.of(Model.from_text(CHAIN))
    assert [step.name for step in flow.steps] == ["m", "a", "unused", "r"]
    assert set(flow.weights) == {"w", "one"}
    assert (list(flow.inputs), flow.outputs) == (["x"], ("y",))


def test_only_the_steps_that_a_tensor_needs_are_named():
    flow = Flow.of(Model.from_text(CHAIN))
    assert [flow.steps[index].name for index in flow.needed(["a"])] == ["m", "a"]
    assert [flow.steps[index].name for index in flow.needed(["y"], known={"m"})] == ["a", "r"]
    assert [step.name for step in flow.up_to(flow.steps[3]).steps] == ["m", "a"]


def test_any_tensor_can_be_fetched_and_every_run_is_counted():
    run = trace(CHAIN, x=np.float32([[1, -1]]))
    found = run.fetch(["m", "y", "w", "x"])
    np.testing.assert_array_equal(found["m"], [[-2, -2]])
    np.testing.assert_array_equal(found["y"], [[0, 0]])
    np.testing.assert_array_equal(found["w"], [[1, 2], [3, 4]])
    assert run.runs == 1
    run.fetch(["w"])
    assert run.runs == 1


def test_given_tensors_replace_what_would_be_computed():
    run = trace(CHAIN, x=np.float32([[1, -1]]))
    np.testing.assert_array_equal(run.fetch(["y"], {"m": np.float32([[5, 6]])})["y"], [[6, 7]])


def test_shapes_and_types_of_all_tensors_come_from_one_run():
    run = trace(CHAIN, x=np.zeros((3, 2), np.float32))
    assert run.shapes() == {"m": (3, 2), "a": (3, 2), "u": (3, 2), "y": (3, 2)}
    assert run.types["m"] == "tensor(float)"
    assert run.runs == 1
    assert tensor_bytes((3, 2), "tensor(float)") == 24
    assert tensor_bytes((3, 2), "tensor(int64)") == 48


def test_large_weights_are_fed_and_small_ones_embedded():
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }'
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    x = np.arange(64, dtype=np.float32)[None]
    part, feeds = assemble(Flow.of(Model.from_proto(proto)), ["y"], {"x": x})
    assert set(feeds) == {"x", "w"}
    assert not part.graph.initializer
    part, feeds = assemble(Flow.of(Model.from_text(CHAIN)), ["m"], {"x": np.zeros((1, 2), np.float32)})
    assert set(feeds) == {"x"}
    assert [item.name for item in part.graph.initializer] == ["w"]


@pytest.mark.parametrize(("outer", "inner"), [(True, True), (True, False), (False, True)])
def test_the_branches_that_are_taken_are_inlined_and_compute_the_same(outer, inner):
    inputs = {"x": np.float32([1, -2]), "outer": np.array(outer), "inner": np.array(inner)}
    expected = Session(Model.from_text(NESTED))(inputs)
    run = trace(NESTED, **inputs)
    run.settle()
    assert not run.flow.branches()
    found = run.fetch(["y", "z"])
    np.testing.assert_array_equal(found["y"], expected["y"])
    np.testing.assert_array_equal(found["z"], expected["z"])
    names = {step.name for step in run.flow.steps}
    assert ("absolute" in names) != outer
    assert ("negate" in names) == (outer and inner)


def test_equal_names_in_two_branches_do_not_meet():
    run = trace(NESTED, x=np.float32([1, -2]), outer=np.array(True), inner=np.array(True))
    run.settle()
    np.testing.assert_array_equal(run.fetch(["d"])["d"], [2, -4])
    np.testing.assert_array_equal(run.fetch(["d@1"])["d@1"], [1, 4])


def test_functions_are_inlined():
    text = """<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) { [call] y = own.Twice(x) }
    <domain: "own", opset_import: ["" : 17]> Twice (a) => (b) { c = Add(a, a) b = Identity(c) }"""
    run = trace(text, x=np.float32([1, 2]))
    assert [step.op_type for step in run.flow.steps] == ["Add", "Identity"]
    np.testing.assert_array_equal(run.fetch(["y"])["y"], [2, 4])


def test_a_part_that_fails_is_reported_with_its_node():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, int64[1] s) => (float[k] y) { [reshape] y = Reshape(x, s) }"""
    with pytest.raises(RuntimeRefused, match="Reshape node 'reshape'"):
        trace(text, x=np.zeros(3, np.float32), s=np.int64([2])).fetch(["y"])
