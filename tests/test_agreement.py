"""Arrays against arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sardonyx.agreement import (
    EXACT,
    Judgement,
    OutputVerdict,
    Tolerance,
    extent,
    flatten,
    for_rounding,
    for_share,
    judge,
    worst,
)

LOOSE = Tolerance(absolute=1e-3)


def only(reference, candidate, tolerance=LOOSE, **options) -> OutputVerdict:
    outputs = judge([reference], [candidate], tolerance, **options).outputs
    assert len(outputs) == 1
    return outputs[0]


def test_the_same_bits_are_equal():
    found = only(np.float32([1, 2]), np.float32([1, 2]), Tolerance())
    assert (found.verdict, found.max_abs, found.used) == ("equal", 0.0, 0.0)


def test_a_difference_within_the_tolerance_is_rounding_and_says_how_much_of_it_was_used():
    found = only(np.float32([1, 2]), np.float32([1, 2.00025]))
    assert found.verdict == "rounding"
    assert found.used == pytest.approx(0.25, rel=1e-2)
    assert found.max_abs == pytest.approx(2.5e-4, rel=1e-2)
    assert found.max_rel == pytest.approx(1.25e-4, rel=1e-2)
    assert found.tolerance == pytest.approx(1e-3)


def test_a_difference_beyond_the_tolerance_is_a_mismatch():
    assert only(np.float32([1, 2]), np.float32([1, 2.1])).verdict == "mismatch"


def test_error_tolerance_and_share_are_of_one_element_and_not_of_the_largest_difference():
    found = only(np.float64([1, 1000]), np.float64([1 + 5e-4, 1000.4]), Tolerance(absolute=1e-9, relative=1e-3))
    told = found.to_dict()
    assert (found.verdict, told["max_abs"]) == ("rounding", pytest.approx(0.4))
    assert (told["error"], told["tolerance"]) == (pytest.approx(5e-4), pytest.approx(1e-3, rel=1e-4))
    assert told["used"] == told["error"] / told["tolerance"] == found.used


def test_what_has_no_size_has_no_error():
    for reference, candidate in ((np.array(["a"]), np.array(["b"])), (np.zeros(2), np.zeros(3))):
        told = only(reference, candidate).to_dict()
        assert (told["verdict"], told["error"], told["used"]) == ("mismatch", None, None)


def test_the_relative_part_of_a_tolerance_grows_with_the_reference():
    tolerance = Tolerance(relative=1e-3)
    assert only(np.float32([1000]), np.float32([1000.5]), tolerance).verdict == "rounding"
    assert only(np.float32([1]), np.float32([1.5]), tolerance).verdict == "mismatch"


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_must_be_at_the_same_places(special):
    reference = np.float32([special, 1])
    assert only(reference, reference.copy()).verdict == "equal"
    found = only(reference, np.float32([1, special]))
    assert found.verdict == "mismatch"
    assert "2 NaN or infinite" in found.note


def test_opposite_infinities_are_a_mismatch():
    assert only(np.float32([np.inf]), np.float32([-np.inf])).verdict == "mismatch"


def test_a_mismatch_is_found_in_the_last_chunk_of_a_large_array():
    reference = np.zeros((1 << 20) + 5, np.float32)
    candidate = reference.copy()
    candidate[-1] = 1
    found = only(reference, candidate)
    assert (found.verdict, found.max_abs) == ("mismatch", 1.0)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.bool_])
def test_integers_and_booleans_are_compared_exactly(dtype):
    reference = np.array([0, 1, 1], dtype)
    assert only(reference, reference.copy()).verdict == "equal"
    found = only(reference, np.array([0, 1, 0], dtype), Tolerance(absolute=10))
    assert found.verdict == "mismatch"
    assert found.note == "1 of 3 integers differ"


def test_unsigned_integers_do_not_wrap_around():
    assert only(np.uint8([0]), np.uint8([255])).max_abs == 255


def test_strings_are_compared_exactly_whatever_type_numpy_holds_them_in():
    assert only(np.array(["a", "b"], object), np.array(["a", "b"])).verdict == "equal"
    found = only(np.array(["a", "b"]), np.array(["a", "c"], object))
    assert (found.verdict, found.max_abs, found.note) == ("mismatch", None, "1 strings differ")


def test_other_shapes_are_a_mismatch_that_names_both():
    found = only(np.zeros((2, 3)), np.zeros((3, 2)))
    assert found.verdict == "mismatch"
    assert found.note == "shape [3, 2] where the reference has [2, 3]"


def test_dimensions_of_one_may_be_left_out_where_the_caller_says_so():
    reference, candidate = np.float32([1, 2]), np.float32([[1], [2]])
    assert only(reference, candidate).verdict == "mismatch"
    found = only(reference, candidate, same_shape=False)
    assert found.verdict == "equal"
    assert "shape [2, 1]" in found.note


def test_another_type_with_the_same_values_is_equal_and_noted():
    found = only(np.int64([1, 2]), np.int32([1, 2]))
    assert found.verdict == "equal"
    assert found.note == "type int32 where the reference has int64"


def test_half_and_bfloat16_are_floats():
    for dtype in (np.float16, ml_dtypes.bfloat16):
        reference = np.array([1, 2], dtype)
        assert only(reference, (reference + dtype(0.05)).astype(dtype), Tolerance(absolute=0.1)).verdict == "rounding"


def test_complex_numbers_are_compared_by_part():
    assert only(np.complex64([1 + 2j]), np.complex64([1 + 2.0001j])).verdict == "rounding"
    assert only(np.complex64([1 + 2j]), np.complex64([2 + 2j])).verdict == "mismatch"


def test_an_output_that_the_candidate_lacks_is_a_mismatch():
    judged = judge([np.zeros(1), np.zeros(1)], [np.zeros(1)], names=["a", "b"])
    assert [output.verdict for output in judged.outputs] == ["equal", "mismatch"]
    assert judged.verdict == "mismatch"


def test_empty_arrays_are_equal():
    assert only(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).verdict == "equal"


def test_a_class_flip_within_rounding_is_counted_and_allowed():
    reference = np.float32([[0.5, 0.5001], [0.9, 0.1]])
    found = only(reference, np.float32([[0.5001, 0.5], [0.9, 0.1]]))
    assert (found.verdict, found.flips) == ("rounding", 1)


def test_a_class_flip_of_a_tie_is_allowed_though_both_classes_moved_apart():
    found = only(np.float32([[0.5, 0.5015]]), np.float32([[0.5009, 0.5006]]))
    assert (found.verdict, found.flips) == ("rounding", 1)


def test_flips_are_counted_in_rows_that_sum_to_one_but_not_in_feature_maps():
    scores = np.float32([[[0.5, 0.5], [0.1, 0.9]]])
    assert only(scores, scores + np.float32([1e-4, 0])).flips == 0
    moved = scores + np.float32([0, 1e-4])
    assert only(scores, moved).flips == 1
    assert only(scores * 7, scores * 7 + np.float32([0, 1e-4])).flips == 0


def test_maps_of_a_classifier_become_one_table():
    rows = [{"cat": 0.25, "dog": 0.75}, {"cat": 1.0, "dog": 0.0}]
    [(name, table)] = flatten([rows], ["p"])
    assert name == "p"
    np.testing.assert_array_equal(table, [[0.25, 0.75], [1.0, 0.0]])
    assert judge([np.array([[0.25, 0.75], [1, 0]])], [rows], Tolerance(1e-6)).verdict == "equal"
    rows[1]["cat"] = 0.5
    assert judge([np.array([[0.25, 0.75], [1, 0]])], [rows], Tolerance(1e-6)).verdict == "mismatch"


def test_a_sequence_is_compared_item_by_item():
    judged = judge([[np.zeros(2), np.zeros(3)]], [[np.zeros(2), np.ones(3)]], names=["s"])
    assert [(output.name, output.verdict) for output in judged.outputs] == [("s[0]", "equal"), ("s[1]", "mismatch")]


def test_merging_keeps_the_worse_verdict_and_the_larger_errors():
    first = judge([np.float32([1])], [np.float32([1.0005])], LOOSE, names=["y"])
    second = judge([np.float32([1])], [np.float32([2])], LOOSE, names=["y"])
    for merged in (first.merge(second), second.merge(first)):
        assert merged.verdict == "mismatch"
        assert merged.outputs[0].max_abs == 1.0
    assert Judgement(()).verdict == "equal"
    assert worst(["equal", "rounding"]) == "rounding"


def test_a_tolerance_that_hides_the_output_is_called_weak():
    assert only(np.float32([1e-3]), np.float32([1.1e-3])).weak == pytest.approx(1.0)
    assert only(np.float32([10]), np.float32([10])).weak == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("dtype", "share"),
    [
        (np.float32, 1024 * 2.0**-24),
        (np.float64, 1024 * 2.0**-24),
        (np.float16, 2.0**-5.5),
        (ml_dtypes.bfloat16, 2.0**-4),
    ],
)
def test_what_was_not_measured_may_lose_a_thousand_roundings_or_half_of_its_digits(dtype, share):
    (allowed,) = for_rounding([np.array([0, -8, np.inf, np.nan]).astype(dtype)])
    assert allowed == Tolerance(pytest.approx(8 * share))


def test_integers_and_strings_have_no_rounding():
    assert for_rounding([np.array([3]), np.array(["a"])]) == [EXACT, EXACT]
    assert for_share([np.array([3]), np.array(["a"])], 0.5) == [EXACT, EXACT]


def test_tolerances_are_given_for_every_leaf_of_a_sequence():
    assert len(for_rounding([[np.float32([1]), np.float32([2])], np.float32([3])])) == 3


def test_a_share_is_of_the_largest_value_and_rounding_comes_on_top():
    (allowed,) = for_share([np.float32([1, -4])], 0.25)
    assert allowed == Tolerance(pytest.approx(1 + 4 * 1024 * 2.0**-24))
    assert for_share([np.float32([1, -4])], 0.0) == for_rounding([np.float32([1, -4])])


COLUMNS = Tolerance(absolute=100.0, columns=(1.0, 1e-6))


def test_a_small_column_beside_a_large_one_has_a_tolerance_of_its_own():
    reference = np.array([[1e7, 0.5], [2e7, 0.1]], np.float32)
    off = np.array([[50, 0], [0, 0]], np.float32)
    assert only(reference, reference + off, COLUMNS).verdict == "rounding"
    assert only(reference, reference + off[:, ::-1] / 100, COLUMNS).verdict == "mismatch"
    assert only(reference, reference + off[:, ::-1] / 100, Tolerance(100.0)).verdict == "rounding"


def test_columns_are_told_apart_in_every_chunk_of_a_large_array(monkeypatch):
    monkeypatch.setattr("sardonyx.agreement.CHUNK", 7)
    reference = np.tile(np.array([1e7, 0.5]), (20, 1))
    wrong = reference.copy()
    wrong[17, 1] += 0.01
    assert only(reference, reference + np.array([50, 0]), COLUMNS).verdict == "rounding"
    assert only(reference, wrong, COLUMNS).verdict == "mismatch"


def test_tolerances_of_columns_are_added_and_the_larger_is_taken():
    both = COLUMNS.plus(Tolerance(absolute=1.0, relative=0.5))
    assert both.absolute * np.array(both.columns) == pytest.approx([101.0, 1.0001])
    larger = COLUMNS.or_larger(Tolerance(absolute=10.0, columns=(1.0, 1.0)))
    assert larger.absolute * np.array(larger.columns) == pytest.approx([100.0, 10.0])
    assert COLUMNS.or_larger(Tolerance(absolute=10.0)).columns == (), "one without columns counts in all of them"


def test_the_size_of_an_output_is_without_what_its_values_have_in_common():
    prices = 5e6 + np.linspace(-5e4, 5e4, 50)
    assert extent(prices) == pytest.approx(3 * prices.std())
    assert extent(prices[:1]) == prices[0]
    assert extent(np.full(8, 5e6)) == 5e6, "equal values have no other size"
    assert extent(np.array([np.nan, np.inf])) == 0
    assert only(prices, prices + 1, Tolerance(2e5)).weak > 1, "more than the whole range is allowed"
