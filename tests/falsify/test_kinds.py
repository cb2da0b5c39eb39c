"""Kinds of values, sizes and integers: the probes that every model is asked."""

import numpy as np

from sardonyx.falsify import Hints
from sardonyx.falsify.integers import Domain, explore_integers, integer_probes
from sardonyx.falsify.kinds import value_kinds
from sardonyx.falsify.sizes import first_sizes, later_sizes, symbols
from sardonyx.signature import Signature

SIGNATURE = Signature.parse(["x=float32[batch,length,3]", "ids=int64[batch,length]", "scale=float32[]"])


def example():
    found = SIGNATURE.sample(sizes={"batch": 2, "length": 5})
    return {**found, "ids": np.arange(10).reshape(2, 5)}


def kinds(**hints):
    return list(value_kinds(example(), Hints(**hints), np.random.default_rng(0)))


def sizes(*telling):
    random = np.random.default_rng(0)
    return [*first_sizes(SIGNATURE, example(), random), *later_sizes(SIGNATURE, example(), telling, random)]


def test_every_probe_fits_the_signature():
    for probe in [*kinds(allow_nan=True, numbers=(7.0,)), *sizes(24)]:
        SIGNATURE.fit(probe.arrays)


def test_every_dynamic_dimension_takes_other_sizes_alone_and_together():
    seen = [symbols(SIGNATURE, probe.arrays) for probe in sizes(24)]
    assert {size["batch"] for size in seen if size["length"] == 5} >= {1, 3, 4, 5, 16, 17, 23, 24, 25, 32, 33, 65, 0}
    assert {size["length"] for size in seen if size["batch"] == 2} >= {1, 2, 3, 6, 10, 23, 24, 25}
    assert any(size["batch"] != 2 and size["length"] != 5 for size in seen)


def test_the_rows_of_a_larger_batch_differ_from_each_other():
    large = next(probe for probe in sizes(24) if probe.name == "batch = 24")
    assert len(np.unique(large.arrays["x"].reshape(24, -1), axis=0)) == 24


def test_floats_reach_both_signs_zero_large_and_tiny():
    values = {probe.name: probe.arrays["x"] for probe in kinds()}
    largest = np.abs(example()["x"]).max()
    assert (values["all positive"] >= 0).all()
    assert (values["all negative"] <= 0).all()
    assert not values["zeros"].any()
    assert np.abs(values["large"]).max() > 10 * largest
    assert np.abs(values["tiny"]).max() < 1e-3 * largest


def test_nan_infinity_and_huge_numbers_are_soft_unless_the_model_says_that_it_takes_holes():
    assert all(probe.soft for probe in kinds() if not np.isfinite(probe.arrays["x"]).all())
    assert any(np.isnan(probe.arrays["x"]).any() and not probe.soft for probe in kinds(allow_nan=True))


def test_numbers_of_the_code_stand_in_the_inputs_exactly_and_on_both_sides():
    values = np.concatenate([probe.arrays["x"].ravel() for probe in kinds(numbers=(5000.0,))])
    assert (values == 5000).any()
    assert ((values > 5000) & (values < 5100)).any()
    assert ((values < 5000) & (values > 4900)).any()


def test_the_same_seed_gives_the_same_probes():
    pairs = zip(kinds(), kinds(), strict=True)
    assert all(one.digest() == two.digest() for one, two in pairs)


def accepted(low, high):
    """A model that takes ids in a span, and keeps what it was asked."""
    asked = []

    def ask(probes):
        asked.extend(probe.arrays["ids"] for probe in probes)
        return [bool((p.arrays["ids"] >= low).all() and (p.arrays["ids"] <= high).all()) for p in probes]

    return ask, asked


def test_the_largest_accepted_integer_is_found_exactly():
    for high in (12, 99, 511, 777):
        ask, _ = accepted(0, high)
        assert explore_integers(example(), Hints(), ask)["ids"] == Domain(0, high, True)


def test_integers_that_are_accepted_everywhere_are_tried_up_to_overflow():
    ask, asked = accepted(-(2**62), 2**62)
    domain = explore_integers(example(), Hints(), ask)["ids"]
    assert domain.low <= -(2**31)
    assert domain.high >= 2**31
    assert any((array == -7).any() for array in asked)


def test_every_row_of_a_table_is_visited():
    ask, _ = accepted(0, 499)
    domains = explore_integers(example(), Hints(), ask)
    probes = list(integer_probes(SIGNATURE, example(), domains, np.random.default_rng(0)))
    assert set(np.concatenate([probe.arrays["ids"].ravel() for probe in probes])) >= set(range(500))
    for probe in probes:
        SIGNATURE.fit(probe.arrays)
