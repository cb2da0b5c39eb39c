import numpy as np
import pytest

from sardonyx.generate import computed, draw, ranges
from sardonyx.model import Model

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def spans(text: str) -> dict[str, tuple[int, int]]:
    return ranges(Model.from_text(HEAD + text).ir.graph)


def test_an_index_stays_inside_the_table_it_points_into() -> None:
    found = spans("""g (int64[n] ids, float[7,2] table) => (float[n,2] y) { y = Gather(table, ids) }""")
    assert found == {"ids": (0, 6)}


def test_the_axis_of_the_table_counts() -> None:
    found = spans("""g (int64[n] ids, float[7,3] table) => (float[7,n] y) { y = Gather<axis = -1>(table, ids) }""")
    assert found == {"ids": (0, 2)}


def test_an_index_is_followed_through_casts_and_reshapes() -> None:
    found = spans(
        """g (int32[n] ids, float[5,2] table) => (float[m,2] y) <int64[1] flat = {-1}> {
            wide = Cast<to = 7>(ids)  shaped = Reshape(wide, flat)  y = Gather(table, shaped) }"""
    )
    assert found == {"ids": (0, 4)}


def test_the_smallest_table_decides() -> None:
    found = spans(
        """g (int64[n] ids, float[9] big, float[2] small) => (float[n] y) {
            a = Gather(big, ids)  b = Gather(small, ids)  y = Add(a, b) }"""
    )
    assert found == {"ids": (0, 1)}


def test_a_one_hot_by_comparison_gives_its_span() -> None:
    found = spans("""g (int32[n,1] x) => (bool[n,4] y) <int32[4] classes = {3, 4, 5, 6}> { y = Equal(x, classes) }""")
    assert found == {"x": (3, 6)}


def test_eight_bits_that_are_dequantised_span_the_type() -> None:
    found = spans(
        """g (int8[n] x) => (float[n] y) <float scale = {0.5}, int8 zero = {0}> { y = DequantizeLinear(x, scale, zero) }"""
    )
    assert found == {"x": (-128, 127)}


def test_nothing_is_claimed_where_the_graph_says_nothing() -> None:
    assert spans("""g (int64[n] x, int64[n] z, float[n] w) => (int64[n] y) { y = Add(x, z) }""") == {}
    assert spans("""g (int64[n] ids, float[m] table) => (float[n] y) { y = Gather(table, ids) }""") == {}


def test_an_index_used_inside_a_branch_is_seen() -> None:
    found = spans(
        """g (bool c, int64[n] ids, float[3] table) => (float[n] y) {
            y = If<then_branch = t () => (float[n] a) { a = Gather(table, ids) },
                   else_branch = e () => (float[n] b) { b = Gather(table, ids) }>(c) }"""
    )
    assert found == {"ids": (0, 2)}


def test_generated_integers_stay_in_their_span() -> None:
    drawn = draw(np.dtype(np.int64), (1000,), seed=0, name="ids", between=(0, 6))
    assert set(drawn.tolist()) == set(range(7))
    assert set(draw(np.dtype(np.int64), (1000,), seed=0, name="ids").tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("dim", "size"),
    [
        ("past + 1", 4),
        ("2*past", 6),
        ("past//2", 1),
        ("past - 5", None),
        ("other + 1", None),
        ("p2o.Dim.0", None),
        ("__import__('os')", None),
        ("past // 0", None),
        ("(" * 500, None),
    ],
)
def test_only_plain_arithmetic_over_known_names_is_computed(dim: str, size: int | None) -> None:
    assert computed(dim, {"past": 3}) == size
