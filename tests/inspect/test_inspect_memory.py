"""Activation memory against sums by hand and against a slow, plain simulation."""

from __future__ import annotations

import random

import pytest

from sardonyx.inspect.memory import Memory
from sardonyx.inspect.summary import dissect
from sardonyx.model import Model

HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def memory(text: str) -> Memory:
    return dissect(Model.from_text(f"{HEAD} {text}"), {}).memory


def test_a_chain_holds_two_neighbours_at_once() -> None:
    found = memory("g (float[10] x) => (float[10] y) { a = Relu(x) b = Neg(a) c = Abs(b) y = Exp(c) }")
    assert (found.peak, found.total) == (2 * 40, 4 * 40)


def test_a_skip_connection_stays_alive_until_it_is_used() -> None:
    found = memory("g (float[10] x) => (float[10] y) { a = Relu(x) b = Neg(a) c = Abs(b) y = Add(a, c) }")
    assert found.peak == 3 * 40
    assert found.peak_at is not None
    assert found.peak_at.op_type in ("Abs", "Add")


def test_reshapes_share_the_bytes_of_their_input() -> None:
    found = memory(
        """g (float[10] x) => (float[10] y) {
        s = Constant<value_ints=[2,5]>() a = Relu(x) b = Reshape(a, s) c = Identity(b) y = Neg(c) }"""
    )
    assert (found.peak, found.total) == (2 * 40, 2 * 40)


def test_an_output_stays_until_the_end() -> None:
    found = memory(
        "g (float[10] x) => (float[10] first, float[10] y) { first = Relu(x) b = Neg(x) c = Abs(b) y = Exp(c) }"
    )
    assert found.peak == 3 * 40


def test_a_result_that_nobody_uses_is_freed_at_once() -> None:
    found = memory("g (float[10] x) => (float[10] y) { unused = Relu(x) a = Neg(x) y = Abs(a) }")
    assert found.peak == 2 * 40


def test_a_value_used_only_inside_a_branch_stays_alive_until_then() -> None:
    found = memory(
        """g (float[10] x, bool c) => (float[10] y) { kept = Relu(x) a = Neg(x) b = Abs(a)
        y = If(c) <then_branch = t () => (float[10] p) { p = Add(kept, b) },
                   else_branch = e () => (float[10] q) { q = Sub(kept, b) }> }"""
    )
    assert found.peak == 3 * 40


def test_the_inside_of_a_branch_counts_on_top() -> None:
    found = memory(
        """g (float[10] x, bool c) => (float[10] y) { a = Relu(x)
        y = If(c) <then_branch = t () => (float[10] r) { p = Neg(a) q = Abs(p) r = Add(p, q) },
                   else_branch = e () => (float[10] s) { s = Neg(a) }> }"""
    )
    assert found.peak == 4 * 40
    assert found.total == 40 + 40 + 3 * 40


def test_types_have_their_own_width() -> None:
    assert memory("g (float[10] x) => (float16[10] y) { y = Cast<to=10>(x) }").total == 20
    assert memory("g (float[10] x) => (int64[10] y) { y = Cast<to=7>(x) }").total == 80
    assert memory("g (float[10] x) => (bool[10] y) { y = IsNaN(x) }").total == 10


def test_values_of_unknown_size_are_numbered() -> None:
    assert memory("g (float[10] x) => (int64 y) { y = NonZero(x) }").unsized == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_agree_with_a_plain_simulation(seed: int) -> None:
    random.seed(seed)
    sizes, reads, lines = {"x0": 4}, [], []
    for index in range(1, 25):
        left, right = random.choices(list(sizes), k=2)
        sizes[f"x{index}"] = sizes[left] + sizes[right]
        reads.append((f"x{index}", {left, right}))
        lines.append(f"x{index} = Concat<axis=0>({left}, {right})")
    kept = {f"x{random.randrange(1, 25)}", "x24"}
    outputs = ", ".join(f"float[{sizes[name]}] {name}" for name in sorted(kept))
    found = memory(f"g (float[4] x0) => ({outputs}) {{ {' '.join(lines)} }}")

    def needed(name: str, moment: int) -> bool:
        return name in kept or any(name in used for _, used in reads[moment:])

    peak = 0
    for moment, (made, _) in enumerate(reads):
        before = [name for name, _ in reads[:moment] if needed(name, moment)]
        peak = max(peak, sum(4 * sizes[name] for name in [*before, made]))
    assert found.peak == peak
    assert found.total == sum(4 * size for name, size in sizes.items() if name != "x0")
