"""Tensors of two graphs that belong together."""

from __future__ import annotations

import pytest

import honest
from sardonyx.compare.align import align, source_of
from sardonyx.compare.difference import explain
from sardonyx.compare.flow import Flow
from sardonyx.model import Model
from subjects import SUBJECTS

SIMPLE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}>
{
  [m1] a = MatMul(x, w)
  [m2] b = MatMul(x, v)
  [add] c = Add(a, b)
  [relu] y = Relu(c)
}"""


def aligned(reference: str, candidate: str):
    theirs, ours = Flow.of(Model.from_text(reference)), Flow.of(Model.from_text(candidate))
    return align(
        theirs,
        ours,
        dict(zip(ours.inputs, theirs.inputs, strict=True)),
        dict(zip(ours.outputs, theirs.outputs, strict=True)),
    )


def test_the_same_graph_is_the_same_everywhere():
    found = aligned(SIMPLE, SIMPLE)
    assert found.same == {"x", "a", "b", "c", "y"}


def test_renamed_tensors_are_found_by_what_they_compute():
    renamed = SIMPLE.replace(" a = ", " t1 = ").replace(" b = ", " t2 = ").replace("Add(a, b)", "Add(t2, t1)")
    found = aligned(SIMPLE, renamed)
    assert (found.pairs["t1"], found.pairs["t2"]) == ("a", "b")
    assert "c" in found.same, "an addition is the same in either order"


def test_names_that_mean_something_else_are_not_believed():
    crossed = SIMPLE.replace(" a = ", " @ = ").replace(" b = ", " a = ").replace(" @ = ", " b = ")
    found = aligned(SIMPLE, crossed)
    assert (found.pairs["a"], found.pairs["b"]) == ("b", "a")


def test_a_changed_weight_ends_what_is_the_same_but_names_go_on():
    found = aligned(SIMPLE, SIMPLE.replace("{5, 6, 7, 8}", "{5, 6, 7, 9}"))
    assert found.same == {"x", "a"}
    assert found.pairs["b"] == "b"
    assert found.pairs["c"] == "c"


def test_behind_a_change_renamed_tensors_are_found_by_structure():
    renamed = SIMPLE.replace("{5, 6, 7, 8}", "{5, 6, 7, 9}").replace(" b = ", " t2 = ").replace(" c = ", " t3 = ")
    renamed = renamed.replace("Add(a, b)", "Add(a, t2)").replace("Relu(c)", "Relu(t3)")
    found = aligned(SIMPLE, renamed)
    assert (found.pairs["t2"], found.pairs["t3"]) == ("b", "c")


def test_an_operator_that_was_replaced_is_crossed_from_the_other_side():
    replaced = SIMPLE.replace(" c = Add(a, b)", " t3 = Sub(a, b)").replace("Relu(c)", "Relu(t3)")
    assert aligned(SIMPLE, replaced).pairs["t3"] == "c"


def test_an_output_is_aligned_with_its_output_though_it_is_computed_like_another_tensor():
    dropped = SIMPLE.replace("[add] c = Add(a, b)\n  [relu] y = Relu(c)", "[add] y = Add(a, b)")
    found = aligned(SIMPLE, dropped)
    assert found.pairs["y"] == "y"
    assert "y" not in found.same


def test_the_exporters_metadata_pairs_places_of_the_source():
    theirs, ours = (
        Model.from_text(SIMPLE),
        Model.from_text(SIMPLE.replace("w = {1", "w = {9").replace(" a = ", " q = ").replace("(a,", "(q,")),
    )
    for model in (theirs, ours):
        next(iter(model.ir.graph)).metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'layer1', 'matmul']"
    found = align(Flow.of(theirs), Flow.of(ours), {"x": "x"}, {"y": "y"})
    assert found.pairs["q"] == "a"
    assert found.ways["q"] == "metadata"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["words", "files", "faces-o", "voice-sequence"])
def test_a_real_model_is_aligned_wholly_after_its_tensors_were_renamed(name):
    reference, renamed = SUBJECTS[name].load(), honest.REWRITES["tensors renamed"](SUBJECTS[name].load())
    theirs, ours = Flow.of(Model.from_proto(reference)), Flow.of(Model.from_proto(renamed))
    found = align(theirs, ours, {name: name for name in theirs.inputs}, {name: name for name in theirs.outputs})
    assert found.same >= set(ours.tensors)


def explained(candidate: str, step: int) -> str:
    theirs, ours = Flow.of(Model.from_text(SIMPLE)), Flow.of(Model.from_text(candidate))
    return explain(
        theirs, ours, ours.steps[step], theirs.steps[step], align(theirs, ours, {"x": "x"}, {"y": "y"}).pairs
    )


@pytest.mark.parametrize(
    ("before", "after", "step", "words"),
    [
        ("{5, 6, 7, 8}", "{5, 6, 7, 9}", 1, "its weight v differs in 1 of 4 values, by at most 1"),
        ("Add(a, b)", "Sub(a, b)", 2, "Sub where the reference has Add"),
        ("[relu] y = Relu(c)", "[relu] y = LeakyRelu(c)", 3, "LeakyRelu where the reference has Relu"),
        ("Relu(c)", "Relu(a)", 3, "its input 0 is a, and c in the reference"),
        ("Add(a, b)", "Add(b, a)", 2, ""),
    ],
)
def test_a_difference_is_put_into_words(before, after, step, words):
    assert explained(SIMPLE.replace(before, after), step) == words


def test_attributes_are_compared_with_their_defaults_filled_in():
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[2,2] y) { [s] y = Softmax%s (x) }'
    assert aligned(text % "", text % " <axis = -1>").same == {"x", "y"}
    theirs, ours = Flow.of(Model.from_text(text % "")), Flow.of(Model.from_text(text % " <axis = 0>"))
    assert (
        explain(theirs, ours, ours.steps[0], theirs.steps[0], {"x": "x", "y": "y"})
        == "axis is 0 and -1 in the reference"
    )


def test_the_source_line_is_the_innermost_frame_of_a_real_file():
    model = Model.from_text(SIMPLE)
    node = next(iter(model.ir.graph))
    node.metadata_props["pkg.torch.onnx.stack_trace"] = (
        'File "net.py", line 3, in forward\n    x = self.layer(x)\n'
        'File "net.py", line 17, in forward\n    return x @ self.w\n'
        'File "<eval_with_key>.7", line 4, in forward\n    mm = x @ w'
    )
    assert source_of(Flow.of(model).steps[0]) == "net.py:17 in forward: return x @ self.w"


def test_without_a_line_the_scope_is_the_source():
    model = Model.from_text(SIMPLE)
    next(iter(model.ir.graph)).metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'encoder.0', 'linear']"
    assert source_of(Flow.of(model).steps[0]) == "encoder.0.linear"
    assert source_of(Flow.of(Model.from_text(SIMPLE)).steps[0]) is None
