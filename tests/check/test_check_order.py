"""Cycles, dangling inputs and unsorted nodes are named, wherever they are."""

from __future__ import annotations

import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from checking import HEAD, REFUSED, codes, findings, subject
from sardonyx.check.order import cycle

IN_BRANCH = """
  y = If (c) <then_branch = t () => (float[2] a) { %s },
              else_branch = e () => (float[2] b) { b = Neg(x) }>
"""


def test_a_sorted_graph_has_nothing_to_say() -> None:
    assert findings("order", subject(f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Relu(x) y = Abs(a) }}")) == []


def test_a_cycle_is_told_in_the_direction_of_the_data() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Add(x, c) b = Relu(a) c = Neg(b) y = Abs(c) }}"
    (found,) = findings("order", subject(text, load=REFUSED))
    assert (found.severity, found.code) == ("error", "cycle")
    assert "Relu of 'b' -> Neg of 'c' -> Add of 'a' -> Relu of 'b'" in found.message


def test_a_node_that_reads_itself_is_a_cycle() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Add(x, y) }}"
    (found,) = findings("order", subject(text, load=REFUSED))
    assert found.code == "cycle"
    assert "Add of 'y' -> Add of 'y'" in found.message


def test_a_long_cycle_is_cut_short() -> None:
    body = "v0 = Add(x, v40) " + " ".join(f"v{i} = Relu(v{i - 1})" for i in range(1, 41)) + " y = Abs(v40)"
    (found,) = findings("order", subject(f"{HEAD} g (float[2] x) => (float[2] y) {{ {body} }}", load=REFUSED))
    assert "33 more" not in found.message
    assert "34 more" in found.message
    assert len(found.message) < 300


def test_a_cycle_through_a_branch_is_found() -> None:
    body = "z = Neg(y)" + IN_BRANCH % "a = Relu(z)"
    (found,) = findings("order", subject(f"{HEAD} g (bool c, float[2] x) => (float[2] y) {{ {body} }}", load=REFUSED))
    assert found.code == "cycle"


def test_a_cycle_inside_a_branch_is_found_and_placed() -> None:
    text = f"{HEAD} g (bool c, float[2] x) => (float[2] y) {{ {IN_BRANCH % 'k = Relu(a) a = Neg(k)'} }}"
    (found,) = findings("order", subject(text, load=REFUSED))
    assert found.code == "cycle"
    assert "then_branch of If" in found.where


def test_a_cycle_in_a_function_is_found() -> None:
    head = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
    function = '<domain: "f", opset_import: ["": 17]> f (a) => (b) { c = Add(a, d) d = Relu(c) b = Neg(d) }'
    text = f"{head} g (float[2] x) => (float[2] y) {{ y = f.f(x) }} {function}"
    assert codes("order", subject(text, load=REFUSED)) == ["cycle"]


def test_unsorted_nodes_are_a_warning_where_the_model_loads() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Abs(a) a = Relu(x) }}"
    (found,) = findings("order", subject(text))
    assert (found.severity, found.code) == ("warning", "unsorted-nodes")
    assert findings("order", subject(text, load=REFUSED))[0].severity == "error"


def test_a_value_that_nobody_makes_is_named_with_its_reader() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Add(x, nowhere) }}"
    (found,) = findings("order", subject(text, load=REFUSED))
    assert found.code == "dangling-input"
    assert "'nowhere'" in found.message
    assert "(Add)" in found.where


def test_an_output_that_nobody_makes_is_named() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y, float[2] z) {{ y = Relu(x) }}"
    (found,) = findings("order", subject(text, load=REFUSED))
    assert (found.code, found.where) == ("dangling-input", "output 'z'")


def test_a_branch_may_read_what_is_around_it() -> None:
    text = f"{HEAD} g (bool c, float[2] x) => (float[2] y) {{ w = Relu(x) {IN_BRANCH % 'a = Neg(w)'} }}"
    assert findings("order", subject(text)) == []


def chain(edges: list[tuple[int, int]], count: int) -> list[onnx.NodeProto]:
    """Nodes by number, each reading the outputs of those that an edge leads from."""
    reads: dict[int, list[str]] = {}
    for source, reader in edges:
        reads.setdefault(reader, []).append(f"v{source}")
    return [helper.make_node("Sum", reads.get(index, ["x"]), [f"v{index}"]) for index in range(count)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_a_cycle_is_found_where_there_is_one_and_only_there(edges: list[tuple[int, int]]) -> None:
    left = set(range(10))
    while free := {n for n in left if not any(b == n and a in left for a, b in edges)}:
        left -= free
    circle = cycle(chain(edges, 10))
    assert bool(circle) == bool(left)
    for node, following in zip(circle, [*circle[1:], *circle[:1]], strict=True):
        assert node.output[0] in following.input


def test_a_chain_of_many_nodes_needs_no_deep_stack() -> None:
    assert cycle(list(reversed(chain([(i, i + 1) for i in range(20_000)], 20_001)))) == []
