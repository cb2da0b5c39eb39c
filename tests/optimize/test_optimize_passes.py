"""Every pass replaces what it says, changes no number, and declines where it must. A pass without a case fails the suite."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx.reference
import onnx_ir as ir
import pytest

from pass_cases import CASES, HOT, INDICES, MATRIX, REFUSALS, SAME, Case, Graph, Refusal
from sardonyx import registry
from sardonyx.model import Model
from sardonyx.optimize._passes import PACKAGE, all_passes, apply
from sardonyx.optimize.passes._graph import Declined
from sardonyx.optimize.passes._rewrite import Note
from sardonyx.optimize.passes.remove_cast_pairs import RemoveCastPairs
from sardonyx.optimize.passes.remove_no_ops import RemoveNoOps
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Array, Arrays

FOLDER = Path(str(registry.__file__)).parent / "optimize" / "passes"


DONE = [(name, case) for name, cases in CASES.items() for case in cases]
DECLINED = [(name, refusal) for name, refusals in REFUSALS.items() for refusal in refusals]


def _ids(table: list[tuple[str, Case]] | list[tuple[str, Refusal]]) -> list[str]:
    return [f"{name}-{index}" for index, (name, _) in enumerate(table)]


def _apply(name: str, model: Model) -> list[Note]:
    return apply(model.ir, [all_passes()[name](), all_passes()["remove_unused"]()])


def _operators(model: Model) -> str:
    return " ".join(node.op_type for graph in model.ir.graphs() for node in graph)


def test_every_pass_has_a_case_in_which_it_works_and_one_in_which_it_declines() -> None:
    assert set(CASES) == set(REFUSALS) == set(registry.names(PACKAGE))


@pytest.mark.parametrize("name", registry.names(PACKAGE))
def test_every_pass_says_what_it_replaces_with_what(name: str) -> None:
    kind = all_passes()[name]
    assert str(kind.__doc__).startswith("Replaces ")
    assert " with " in str(kind.__doc__)
    assert str(ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text()))).startswith("Replaces ")


def test_passes_run_in_an_order_of_their_own() -> None:
    orders = [kind.order for kind in all_passes().values()]
    assert orders == sorted(set(orders))


@pytest.mark.parametrize(("name", "case"), DONE, ids=_ids(DONE))
def test_a_pass_replaces_what_it_says_and_changes_no_number(name: str, case: Case) -> None:
    before, after = case.before.model(), case.before.model()
    notes = _apply(name, after)
    assert _operators(after) == case.after
    assert any(note.rewrite == name and note.done and note.reason for note in notes)
    for seed in (0, 1):
        inputs = before.signature.sample(seed=seed, sizes={"n": 2})
        tolerance = 1e-2 if next(iter(inputs.values())).dtype == np.float16 else 2e-5
        wanted = Session(before, Settings(optimize=False))(inputs).values()
        for given in _answers(after, inputs, case):
            for mine, theirs in zip(given, wanted, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


def _answers(model: Model, inputs: Arrays, case: Case) -> Iterator[Iterable[Array]]:
    """The answers of onnxruntime, and of onnx's own evaluator where that can compute the graph."""
    yield Session(model, Settings(optimize=False))(inputs).values()
    if case.told:
        yield onnx.reference.ReferenceEvaluator(model.to_proto()).run(None, dict(inputs))


@pytest.mark.parametrize(("name", "refusal"), DECLINED, ids=_ids(DECLINED))
def test_a_pass_declines_and_says_why(name: str, refusal: Refusal) -> None:
    model = refusal.graph.model()
    notes = [note for note in _apply(name, model) if note.rewrite == name]
    assert any(refusal.reason in note.reason and not note.done for note in notes), notes
    assert not any(note.done for note in notes)


def test_a_pair_of_casts_that_rounds_goes_only_where_that_is_asked_for() -> None:
    graph = Graph(SAME, "a = Cast<to = 10>(x) b = Cast<to = 1>(a) y = Relu(b)")
    kept, gone = graph.model(), graph.model()
    apply(kept.ir, [RemoveCastPairs()])
    apply(gone.ir, [RemoveCastPairs(), all_passes()["remove_unused"]()], rounding=True)
    assert (_operators(kept), _operators(gone)) == ("Cast Cast Relu", "Relu")


def test_all_passes_together_reach_into_graphs_inside_nodes() -> None:
    inner = "t1 = Transpose<perm = [1, 0]>(x) t2 = Transpose<perm = [1, 0]>(t1) a = Relu(t2)"
    model = Graph(
        "(bool c, float[2,3] x) => (float[2,3] y)",
        f"y = If(c)<then_branch = t () => (float[2,3] a) {{ {inner} }}, else_branch = e () => (float[2,3] b) {{ b = Neg(x) }}>",
    ).model()
    apply(model.ir)
    assert _operators(model) == "If Relu Neg"
    inputs = {"c": np.array(True), "x": np.array([[1, -2, 3], [-4, 5, -6]], np.float32)}
    np.testing.assert_array_equal(Session(model)(inputs)["y"], [[1, 0, 3], [0, 5, 0]])


def test_an_index_that_is_none_of_the_numbers_still_gives_zeros() -> None:
    """Below and above; also where it would count from the end. The seeded fault takes it for a row."""
    model = Graph(INDICES, "e = Equal(i, k) h = Cast<to = 1>(e) y = MatMul(h, w)", HOT).model()
    inputs = {"i": np.array([-4, -3, -2, -1, 0, 1, 2, 3, 4, 1 << 40]).reshape(5, 2, 1)}
    wanted = Session(model)(inputs)["y"]
    apply(model.ir, [all_passes()["look_up_one_hot"]()])
    np.testing.assert_array_equal(Session(model)(inputs)["y"], wanted)
    (clip,) = (node for node in model.ir.graph if node.op_type == "Clip")
    clip.replace_input_with(1, None)
    model.ir.graph.initializers["w_rows_1"].const_value = ir.tensor(np.ones((4, 2), np.float32))
    assert not np.array_equal(Session(model)(inputs)["y"], wanted)


NONE = "int64[0] k = {}, float[0,2] w = {}"
PART = "int64[1] from = {0}, int64[1] to = {2}, int64[1] axes = {-1}"


@pytest.mark.parametrize(
    "graph",
    [
        Graph("(int64[n,1] i) => (float[n,2] y)", "e = Equal(i, k) h = Cast<to = 1>(e) y = MatMul(h, w)", NONE),
        Graph("(int64[n] i) => (float[n] y)", "r = Gather(t, i) y = Gelu(r)", "float[3] t = {1, 2, 3}", 20),
        Graph("(float[n,3] x) => (float[n,2] y)", "y = Slice(x, from, to, axes)", PART),
    ],
    ids=["no rows", "Gelu", "part"],
)
def test_what_only_looks_like_a_pattern_stays(graph: Graph) -> None:
    model = graph.model()
    before = _operators(model)
    apply(model.ir)
    assert _operators(model) == before


def test_a_size_of_minus_one_is_unknown() -> None:
    model = Graph(
        "(float[n,3] x) => (float[m,3] y)",
        "a = Slice(x, from, to) y = Relu(a)",
        "int64[1] from = {0}, int64[1] to = {2}",
    ).model()
    model.ir.graph.inputs[0].shape = ir.Shape([-1, 3])
    RemoveNoOps()(model.ir)
    assert _operators(model) == "Slice Relu"


def test_a_large_table_that_others_take_too_is_not_kept_twice() -> None:
    table = ", ".join(["1"] * 80_000)
    head = "(int64[n] i) => (float[n,2] y, float[n,2] z)"
    model = Graph(head, "r = Gather(t, i) y = Neg(r) z = Relu(r)", f"float[40000,2] t = {{{table}}}").model()
    small = model.weight_bytes()
    notes = apply(model.ir)
    assert any("kept twice" in note.reason for note in notes)
    assert model.weight_bytes() == small


def test_a_weight_that_two_products_share_keeps_its_values_for_the_other() -> None:
    head = "(float[n,3] x) => (float[n,2] y, float[n,2] z)"
    body = "a = MatMul(x, w) y = Mul(a, k) z = MatMul(x, w)"
    model = Graph(head, body, f"{MATRIX}, float[2] k = {{2, -3}}").model()
    inputs = model.signature.sample(sizes={"n": 2})
    wanted = Session(model)(inputs)
    apply(model.ir, [all_passes()["fold_affine"]()])
    for name, value in Session(model)(inputs).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-5)


def test_declining_is_an_exception_that_a_pass_raises_and_the_machinery_turns_into_a_note() -> None:
    model = Graph(SAME, "a = Cast<to = 10>(x) y = Cast<to = 1>(a)").model()
    chosen = RemoveCastPairs()
    chosen(model.ir)
    assert [note.reason for note in chosen.notes] == ["the pair rounds FLOAT to FLOAT16"]
    assert issubclass(Declined, Exception)
