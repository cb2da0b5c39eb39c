"""Which inputs decide the outputs, through branches, loops, scans and functions."""

from __future__ import annotations

import pytest

from sardonyx.model import Model
from sardonyx.reach import findings, unused_inputs

HEAD = '<ir_version: 10, opset_import: ["": 18]>'


def unused(graph: str, functions: str = "", head: str = HEAD) -> list[str]:
    return unused_inputs(Model.from_text(f"{head} g {graph} {functions}"))


def test_an_input_that_nothing_reads_is_unused() -> None:
    assert unused("(float[n] x, int64 k) => (float[n] y) { y = Neg(x) }") == ["k"]


def test_an_input_that_ends_in_a_value_nothing_reads_is_unused() -> None:
    assert unused("(float[n] x, float[n] z) => (float[n] y) { a = Exp(z) b = Mul(a, x) y = Neg(x) }") == ["z"]


def test_an_input_that_is_an_output_is_used() -> None:
    assert unused("(float[n] x, float[n] y) => (float[n] y, float[n] z) { z = Neg(x) }") == []


def test_an_input_of_which_only_the_size_counts_is_used() -> None:
    assert unused("(float[n] x) => (int64[1] y) { y = Shape(x) }") == []


def test_a_default_value_is_no_input() -> None:
    assert unused("(float[n] x, float[1] w) => (float[n] y) <float[1] w = {1}> { y = Neg(x) }") == []


BRANCHES = """(bool c, float[n] x, float[n] z) => (float[n] y) {{
    y = If (c) <then_branch = t () => (float[n] a) {{ {then} }}, else_branch = e () => (float[n] b) {{ b = Neg(x) }}>
}}"""


@pytest.mark.parametrize(
    ("then", "expected"),
    [("a = Abs(z)", []), ("a = Abs(x)", ["z"]), ("dead = Abs(z) a = Abs(x)", ["z"])],
)
def test_branches_are_looked_into(then: str, expected: list[str]) -> None:
    assert unused(BRANCHES.format(then=then)) == expected


def test_an_output_of_a_branch_that_nothing_reads_does_not_count() -> None:
    graph = """(bool c, float[n] x, float[n] z) => (float[n] y) {
        y, dead = If (c) <then_branch = t () => (float[n] a, float[n] p) { a = Abs(x) p = Neg(z) },
                          else_branch = e () => (float[n] b, float[n] q) { b = Neg(x) q = Abs(z) }>
    }"""
    assert unused(graph) == ["z"]


LOOP = """(int64 k, bool c, float[n] x, float[n] z) => (float[n] y) {{
    y, other = Loop (k, c, x, z) <body = b (int64 i, bool go, float[n] p, float[n] q)
        => (bool on, float[n] r, float[n] s) {{ {body} }}>
}}"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("on = Identity(go) r = Neg(p) s = Neg(q)", ["z"]),
        ("on = Identity(go) r = Neg(q) s = Neg(q)", []),  # the last turn's q
        ("on = Identity(go) r = Neg(q) s = Identity(p)", []),
        ("big = ReduceMax<keepdims = 0>(q) on = Cast<to = 9>(big) r = Neg(p) s = Abs(q)", []),  # q says when to stop
    ],
)
def test_what_a_loop_carries_is_followed(body: str, expected: list[str]) -> None:
    assert unused(LOOP.format(body=body)) == expected


SCAN = """(float[m] s, float[m] t, float[n,m] x) => (float[m] y) {{
    y, other = Scan <num_scan_inputs = 1, body = b (float[m] p, float[m] q, float[m] row)
        => (float[m] a, float[m] b2) {{ {body} }}> (s, t, x)
}}"""


@pytest.mark.parametrize(
    ("body", "expected"), [("a = Add(p, row) b2 = Neg(q)", ["t"]), ("a = Add(p, q) b2 = Neg(q)", [])]
)
def test_the_states_of_a_scan_are_followed(body: str, expected: list[str]) -> None:
    assert unused(SCAN.format(body=body)) == expected


def test_a_function_is_looked_into() -> None:
    head = '<ir_version: 10, opset_import: ["": 18, "own": 1]>'
    function = '<domain: "own", opset_import: ["": 18]> f (a, b) => (c) { d = Exp(b) c = Neg(a) }'
    assert unused("(float[n] x, float[n] z) => (float[n] y) { y = own.f(x, z) }", function, head) == ["z"]


@pytest.mark.parametrize(
    "node",
    [
        "y = If ()",
        "y = Loop (x)",
        "y = If () <then_branch = t () => () { }>",
        "y = Loop () <body = b () => () { }>",
        "y = Scan () <body = b () => () { }>",
        "y = Scan (x) <num_scan_inputs = 7, body = b (float a) => (float a) { }>",
    ],
)
def test_broken_control_flow_does_not_stop_the_search(node: str) -> None:
    assert set(unused(f"(float[n] x) => (float[n] y) {{ {node} }}")) <= {"x"}


def test_the_finding_names_the_input_and_what_to_do() -> None:
    (found,) = findings(Model.from_text(f"{HEAD} g (float[n] x, int64 k) => (float[n] y) {{ y = Neg(x) }}"))
    assert (found.severity, found.code, found.where) == ("warning", "unused-input", "input 'k'")
    assert "no output depends on k" in found.message
    assert "constant" in found.hint
