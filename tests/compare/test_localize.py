"""The first diverging node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import sardonyx
from sardonyx.compare.flow import Flow
from sardonyx.compare.localize import localize
from sardonyx.errors import InputError
from sardonyx.model import Model

RANDOM = np.random.default_rng(11)


def chain(nodes: int, *, size: int = 8, seed: int = 0) -> onnx.ModelProto:
    """As many nodes as asked for: turns by an orthogonal matrix, offsets and tanh, in a row."""
    random = np.random.default_rng(seed)
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[n,{size}] x) => (float[n,{size}] y) {{ y = Identity(x) }}'
    )
    del proto.graph.node[:]
    for index in range(nodes):
        source, target = f"t{index - 1}" if index else "x", f"t{index}" if index < nodes - 1 else "y"
        kind = ("MatMul", "Add", "Tanh")[index % 3]
        inputs = [source] if kind == "Tanh" else [source, f"w{index}"]
        proto.graph.node.append(onnx.helper.make_node(kind, inputs, [target], name=f"{kind}_{index}"))
        if kind != "Tanh":
            turn = np.linalg.qr(random.standard_normal((size, size)))[0] * 1.2
            weight = turn if kind == "MatMul" else 0.1 * random.standard_normal(size)
            proto.graph.initializer.append(onnx.numpy_helper.from_array(weight.astype(np.float32), f"w{index}"))
    return proto


def edit(proto: onnx.ModelProto, name: str, change) -> None:
    item = next(item for item in proto.graph.initializer if item.name == name)
    item.CopyFrom(onnx.numpy_helper.from_array(change(onnx.numpy_helper.to_array(item).copy()), name))


def off_by(amount: float):
    return lambda array: (
        array + np.float32(amount) * (np.arange(array.size) == 0).reshape(array.shape).astype(np.float32)
    )


def rounded_elsewhere(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Every weight moved by one unit in the last place: nothing is the same any more, and nothing is wrong."""
    for item in proto.graph.initializer:
        edit(proto, item.name, lambda array: np.nextafter(array, np.float32(np.inf)))
    return proto


def found(reference: onnx.ModelProto, candidate: onnx.ModelProto, memory: int = 1 << 30, rows: int = 4):
    theirs, ours = Flow.of(Model.from_proto(reference)), Flow.of(Model.from_proto(candidate))
    x = np.random.default_rng(1).standard_normal((rows, 8)).astype(np.float32)
    return localize(theirs, ours, {"x": x}, output="y", inputs_of={"x": "x"}, outputs_of={"y": "y"}, memory=memory)


@pytest.mark.parametrize("place", [0, 31, 58])
def test_a_changed_weight_is_located_at_the_node_that_reads_it(place):
    wrong = chain(60)
    name = next(item.name for item in wrong.graph.initializer if item.name == f"w{place}")
    edit(wrong, name, off_by(0.01))
    where = found(chain(60), wrong)
    assert where.node.endswith(f"_{place}")
    assert where.confirmed
    assert where.why.startswith(f"its weight w{place} differs in 1 of")


@pytest.mark.parametrize("place", [1, 30, 57])
def test_it_is_located_though_every_other_node_rounds_differently(place):
    wrong = rounded_elsewhere(chain(60))
    edit(wrong, f"w{place}", off_by(0.01))
    assert found(chain(60), wrong).node.endswith(f"_{place}")


def test_it_is_located_with_memory_for_one_tensor_at_a_time():
    wrong = rounded_elsewhere(chain(60))
    edit(wrong, "w30", off_by(0.01))
    assert found(chain(60), wrong, memory=1).node == "MatMul_30"


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize(("place", "rewritten"), [(333, False), (2, True), (501, True), (998, True)])
def test_a_thousand_nodes_take_at_most_twenty_five_partial_runs(place, rewritten):
    wrong = rounded_elsewhere(chain(1000)) if rewritten else chain(1000)
    node = wrong.graph.node[place]
    if node.op_type == "Tanh":
        node.op_type = "Softsign"
    else:
        edit(wrong, f"w{place}", off_by(0.01))
    where = found(chain(1000), wrong)
    assert where.node == node.name
    assert where.runs <= 25


@pytest.mark.rest
@pytest.mark.heavy
def test_a_thousand_nodes_take_at_most_twenty_five_partial_runs_with_little_memory():
    wrong = chain(1000)
    edit(wrong, "w501", off_by(0.01))
    where = found(chain(1000), wrong, memory=1)
    assert where.node == "MatMul_501"
    assert where.runs <= 25


def test_two_models_that_agree_node_by_node_have_no_first_diverging_node():
    with pytest.raises(InputError, match="the two agree"):
        found(chain(20), rounded_elsewhere(chain(20)))


BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,4] x) => (float[n,4] y) <float[4] a = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}, float[4] none = {0, 0, 0, 0}>
{
  [left] l = Mul(x, a)
  [right] r = Add(x, b)
  [hide] h = Mul(l, none)
  [late] k = Tanh(l)
  [join] j = Add(h, r)
  [end] y = Add(j, k)
}"""


def compared(reference: str, candidate: str, **options):
    x = RANDOM.standard_normal((3, 4)).astype(np.float32)
    return sardonyx.compare(Model.from_text(reference), Model.from_text(candidate), data={"x": x}, **options)


def test_an_operator_that_hides_the_difference_on_one_path_does_not_hide_the_node():
    report = compared(BRANCHES, BRANCHES.replace("{1, 2, 3, 4}", "{1, 2, 3, 5}"))
    assert report["first_divergence"]["node"] == "left"


def test_the_node_inside_the_branch_that_is_taken_is_named():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) <float zero = {0}>
    {
      s = ReduceSum <keepdims = 0> (x)
      c = Equal(s, s)
      [choose] y = If (c) <
        then_branch = t () => (float[n,4] p) { [inside] q = Exp(x) [after] p = Tanh(q) },
        else_branch = e () => (float[n,4] o) { [other] o = Neg(x) }
      >
    }"""
    assert compared(text, text.replace("Exp(x)", "Sqrt(x)"))["first_divergence"]["node"] == "inside"


def test_a_node_that_only_enlarges_a_small_difference_is_not_blamed():
    """The divisor is nearly zero, so a tiny error before it becomes a large one."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) <float[4] w = {1, 1, 1, 1}, float small = {0.00001}>
    {
      [scale] s = Mul(x, w)
      [tanh] t = Tanh(s)
      [same] u = Tanh(x)
      [difference] d = Sub(t, u)
      [blow] y = Div(d, small)
    }"""
    report = compared(text, text.replace("{1, 1, 1, 1}", "{1.00001, 1, 1, 1}"))
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["node"] == "scale"


def test_a_candidate_that_fails_is_searched_up_to_the_node_that_fails():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[m,k] y) <int64[2] shape = {2, 6}>
    {
      [turn] t = Transpose <perm = [0, 1]> (x)
      [cut] c = Concat <axis = 1> (t, x)
      [flat] y = Reshape(c, shape)
    }"""
    x = RANDOM.standard_normal((3, 4)).astype(np.float32)
    good = text.replace("{2, 6}", "{4, 6}")
    report = sardonyx.compare(Model.from_text(good), Model.from_text(text), data={"x": x})
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["node"] == "flat"
    wrong = good.replace("Concat <axis = 1> (t, x)", "Concat <axis = 1> (t, x, x)")
    report = sardonyx.compare(Model.from_text(good), Model.from_text(wrong), data={"x": x})
    assert report["first_divergence"]["node"] == "cut"


def test_a_region_without_counterparts_is_reported_whole():
    """The candidate writes a softmax in other operators, and one of them is wrong: the region is what can be said."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) { [before] b = Tanh(x) [softmax] y = Softmax <axis = -1> (b) }"""
    other = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) <int64[1] axes = {0}>
    { [before] b = Tanh(x) [exp] e = Exp(b) [sum] s = ReduceSum(e, axes) [divide] y = Div(e, s) }"""
    where = compared(text, other)["first_divergence"]
    assert where["node"] == "divide"
    assert where["region"] == ["exp", "sum", "divide"]
    assert where["reference_node"] == "softmax"


def test_inside_a_rewritten_stretch_the_odd_one_is_picked_out_and_what_matches_by_value_is_left_out():
    """Both write a GELU, in another order of factors; the candidate has a tanh where there should be an erf."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}>
    { [d] d = Div(x, root) [e] e = Erf(d) [a] a = Add(e, one) [h] h = Mul(a, half) [g] g = Mul(x, h) [end] y = Neg(g) }"""
    other = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}>
    {
      [div] p = Div(x, root) [wrong] q = Tanh(p) [add] r = Add(q, one) [mul] s = Mul(x, r) [last] t = Mul(s, half)
      [neg] y = Neg(t)
    }"""
    where = compared(text, other)["first_divergence"]
    assert where["node"] == "wrong"
    assert where["reference_node"] == "e"
    assert where["why"] == "Tanh where the reference has Erf"
    assert "div" not in where["region"]


def test_a_candidate_in_half_precision_is_searched_in_its_own_types():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,4] x) => (float[n,4] y) { [tanh] m = Tanh(x) [exp] e = Exp(m) [root] y = Sqrt(e) }"""
    half = text.replace("float[", "float16[")
    report = compared(text, half)
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["node"] == "tanh"
    assert report["first_divergence"]["confirmed"]
