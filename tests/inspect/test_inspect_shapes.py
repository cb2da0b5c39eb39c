"""Shapes where onnx alone would stop: taken apart and rebuilt, in branches and loops, in functions."""

from __future__ import annotations

from typing import Any

import pytest

from sardonyx.errors import BrokenModel
from sardonyx.inspect.summary import Anatomy, dissect
from sardonyx.model import Model

HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'


def walked(text: str, **sizes: int) -> Anatomy:
    return dissect(Model.from_text(f"{HEAD} {text}"), sizes)


def shapes(found: Anatomy) -> dict[str, Any]:
    return {value.name: fact.shape for value, fact in found.walk.facts.items()}


def test_a_shape_taken_apart_and_rebuilt_stays_known() -> None:
    found = walked(
        """g (float[batch,length,12] x) => (float y) {
        s = Shape(x)  zero = Constant<value_int=0>()  one = Constant<value_int=1>()
        b = Gather(s, zero)  n = Gather(s, one)
        axis = Constant<value_ints=[0]>()
        b1 = Unsqueeze(b, axis)  two = Constant<value_int=2>()
        half = Div(n, two)  n1 = Unsqueeze(half, axis)
        rest = Constant<value_ints=[-1]>()
        target = Concat<axis=0>(b1, n1, rest)
        y = Reshape(x, target) }""",
        batch=3,
        length=8,
    )
    assert shapes(found)["y"] == (3, 4, 24)


def test_range_and_expand_follow_the_sizes() -> None:
    found = walked(
        """g (int64[1,length] x) => (int64 y) {
        n = Size(x)  zero = Constant<value_int=0>()  one = Constant<value_int=1>()
        r = Range(zero, n, one)
        s = Shape(x)  y = Expand(r, s) }""",
        length=5,
    )
    assert shapes(found)["r"] == (5,)
    assert shapes(found)["y"] == (1, 5)


def test_old_forms_of_operators_are_read_by_their_own_opset() -> None:
    model = Model.from_text(
        """<ir_version: 6, opset_import: ["": 11]> g (float[2,3,4] x) => (float y) {
        s = Shape(x)  zero = Constant<value = int64 {0}>()
        b = Gather<axis=0>(s, zero)  b1 = Unsqueeze<axes=[0]>(b)  rest = Constant<value = int64[1] {-1}>()
        t = Concat<axis=0>(b1, rest)  y = Reshape(x, t) }"""
    )
    assert shapes(dissect(model, {}))["y"] == (2, 12)


def test_the_long_name_of_the_standard_domain_means_the_same() -> None:
    model = Model.from_text(
        '<ir_version: 8, opset_import: ["ai.onnx": 17]> g (float[2,3] x, float[3,4] w) => (float y) { y = ai.onnx.MatMul(x, w) }'
    )
    found = dissect(model, {})
    assert (shapes(found)["y"], found.costs.total) == ((2, 4), 24)


def test_a_huge_constant_is_never_built() -> None:
    found = walked("g () => (float y) { s = Constant<value_ints=[1000000000, 1000000000]>() y = ConstantOfShape(s) }")
    assert shapes(found)["y"] == (10**9, 10**9)


def test_a_faulty_node_leaves_its_value_unknown() -> None:
    found = walked(
        """g (float[1] x) => (float y) { s = Shape(x) far = Constant<value_int=7>() i = Gather(s, far)
        axis = Constant<value_ints=[0]>() t = Unsqueeze(i, axis) y = Expand(x, t) }"""
    )
    assert found.walk.fact(found.graph.outputs[0]).sizes is None


BRANCHES = """
    y = If(c) <then_branch = t () => (float[2,2] a) { a = MatMul(x, w) },
               else_branch = e () => (float[2,8] b) { b = MatMul(x, v) }> }"""


def test_a_condition_known_beforehand_picks_its_branch() -> None:
    found = walked(
        "g (float[2,4] x, float[4,2] w, float[4,8] v) => (float y) { n = Size(x) k = Constant<value_int=8>() c = Equal(n, k)"
        + BRANCHES
    )
    assert shapes(found)["y"] == (2, 2)
    assert (found.costs.total, found.costs.choices) == (2 * 4 * 2, 0)


def test_a_condition_of_the_inputs_counts_the_costlier_branch() -> None:
    found = walked("g (float[2,4] x, bool c, float[4,2] w, float[4,8] v) => (float y) {" + BRANCHES)
    assert shapes(found)["y"] == (2, None)
    assert (found.costs.total, found.costs.choices) == (2 * 4 * 8, 1)


LOOP = """
    y, all = Loop(%s, %s, x) <body = b (int64 i, bool go, float[2,4] h) => (bool on, float[2,4] next, float[2,4] seen)
        { on = Identity(go) next = MatMul(h, w) seen = Identity(next) }> }"""


def test_a_loop_of_known_length_is_counted_as_often_as_it_runs() -> None:
    found = walked(
        "g (float[2,4] x, float[4,4] w) => (float y, float all) { n = Constant<value_int=5>()" + LOOP % ("n", "")
    )
    assert (found.costs.total, found.costs.loops_once) == (5 * 2 * 4 * 4, 0)
    assert shapes(found)["y"] == (2, 4)
    assert shapes(found)["all"] == (5, 2, 4)


def test_a_loop_of_unknown_length_is_counted_once_and_says_so() -> None:
    found = walked("g (float[2,4] x, float[4,4] w, int64 n, bool c) => (float y, float all) {" + LOOP % ("n", "c"))
    assert (found.costs.total, found.costs.loops_once) == (2 * 4 * 4, 1)
    assert shapes(found)["all"] == (None, 2, 4)


def test_a_loop_that_grows_its_state_is_counted_once() -> None:
    found = walked(
        """g (float[1,4] x, float[4,4] w) => (float y) { n = Constant<value_int=5>()
        y = Loop(n, , x) <body = b (int64 i, bool go, float[k,4] h) => (bool on, float[j,4] next)
            { on = Identity(go) p = MatMul(h, w) next = Concat<axis=0>(h, p) }> }"""
    )
    assert (found.costs.total, found.costs.loops_once) == (16, 1)
    assert shapes(found)["y"] == (None, 4)


def test_a_scan_is_counted_along_its_sequence() -> None:
    found = walked(
        """g (float[3] s, float[7,2] x, float[2,3] w) => (float[3] last, float[7,3] all) {
        last, all = Scan<num_scan_inputs=1, body = b (float[3] h, float[2] e) => (float[3] next, float[3] seen)
            { p = MatMul(e, w) next = Add(h, p) seen = Identity(next) }>(s, x) }"""
    )
    assert (found.costs.total, found.costs.loops_once) == (7 * 2 * 3, 0)
    assert shapes(found)["all"] == (7, 3)


def test_functions_are_counted_at_every_call_and_their_weights_once() -> None:
    model = Model.from_text(
        """<ir_version: 10, opset_import: ["": 21, "mine": 1]>
        g (float[2,2] x) => (float[2,2] y) { h = mine.Layer(x) y = mine.Layer(h) }
        <domain: "mine", opset_import: ["": 21]> Layer (a) => (b) {
            w = Constant<value = float[2,2] {1.0,2.0,3.0,4.0}>() b = MatMul(a, w) }"""
    )
    found = dissect(model, {})
    assert found.costs.total == 2 * 8
    assert found.parameters == 4
    assert len(model.ir.functions) == 1, "the model itself must stay as it was"


def calling(bodies: dict[str, str]) -> Model:
    functions = "".join(
        f'<domain: "mine", opset_import: ["": 21, "mine": 1]> {name} (a) => (c) {{ {body} }}\n'
        for name, body in bodies.items()
    )
    return Model.from_text(
        f'<ir_version: 10, opset_import: ["": 21, "mine": 1]> g (float[2] x) => (float[2] y) {{ y = mine.F0(x) }} {functions}'
    )


def test_functions_that_call_themselves_are_refused() -> None:
    with pytest.raises(BrokenModel, match=r"call themselves: mine\.F"):
        dissect(calling({"F0": "c = mine.F1(a)", "F1": "c = mine.F0(a)"}), {})


def test_functions_that_would_fill_the_memory_are_refused() -> None:
    bodies = {f"F{level}": f"b = mine.F{level + 1}(a) c = mine.F{level + 1}(b)" for level in range(40)}
    with pytest.raises(BrokenModel, match="1,099,511,627,776 nodes"):
        dissect(calling({**bodies, "F40": "c = Relu(a)"}), {})


def test_declared_shapes_help_where_nothing_can_be_inferred() -> None:
    model = Model.from_text(
        """<ir_version: 10, opset_import: ["": 21, "mine": 1]> g (float[n,3] x, float[5,2] w) => (float[n,2] y)
        <float[n,5] h> { h = mine.Mystery(x) y = MatMul(h, w) }"""
    )
    found = dissect(model, {"n": 4})
    assert found.costs.macs["MatMul"] == 4 * 5 * 2


def test_what_depends_on_weights_alone_costs_nothing_per_run() -> None:
    found = walked(
        """g (float[1,2] x) => (float[1,2] y) {
        a = Constant<value = float[2,2] {1.0,2.0,3.0,4.0}>() w = MatMul(a, a) y = MatMul(x, w) }"""
    )
    assert found.costs.total == 4
    assert found.memory.total == 8


def test_random_values_are_no_constants() -> None:
    found = walked("g (float[2,2] w) => (float[3,2] y) { r = RandomNormal<shape=[3,2]>() y = MatMul(r, w) }")
    assert found.costs.total == 12


def test_sequences_are_carried_through() -> None:
    found = walked(
        """g (float[6,2] x) => (float y) { n = Constant<value_int=3>()
        s = SplitToSequence<axis=0>(x, n) y = ConcatFromSequence<axis=0>(s) }"""
    )
    assert found.walk.fact(found.graph.outputs[0]).dtype is not None
