import numpy as np

from sardonyx.convert.probes import probes, symbols
from sardonyx.signature import Signature

SIGNATURE = Signature.parse(["x=float32[batch,length,3]", "ids=int64[batch,length]", "scale=float32[]"])


def made(**said):
    example = SIGNATURE.sample(sizes={"batch": 2, "length": 5})
    example["ids"] = np.arange(10).reshape(2, 5)
    return example, probes(SIGNATURE, example, said)


def test_the_example_comes_first_and_unchanged():
    example, found = made()
    assert found[0].name == "the example"
    assert found[0].arrays is example


def test_every_probe_fits_the_signature():
    _, found = made(allow_nan=True)
    for probe in found:
        SIGNATURE.fit(probe.arrays)


def test_every_dynamic_dimension_takes_other_sizes_alone_and_together():
    _, found = made()
    seen = [symbols(SIGNATURE, probe.arrays) for probe in found]
    assert {size["batch"] for size in seen if size["length"] == 5} >= {1, 2, 3, 4, 5}
    assert {size["length"] for size in seen if size["batch"] == 2} >= {1, 2, 3, 5, 6, 10}
    assert any(size["batch"] != 2 and size["length"] != 5 for size in seen)


def test_integers_stay_in_the_range_of_the_example():
    _, found = made()
    assert all(probe.arrays["ids"].min() >= 0 and probe.arrays["ids"].max() <= 9 for probe in found)
    assert any((probe.arrays["ids"] == 9).all() for probe in found)


def test_floats_reach_both_signs_zero_large_and_tiny():
    example, found = made()
    values = {probe.name: probe.arrays["x"] for probe in found}
    assert (values["all positive"] >= 0).all()
    assert (values["all negative"] <= 0).all()
    assert not values["zeros"].any()
    assert np.abs(values["large"]).max() > 10 * np.abs(example["x"]).max()
    assert np.abs(values["tiny"]).max() < 1e-3 * np.abs(example["x"]).max()


def test_holes_come_only_where_they_are_allowed():
    _, without = made()
    _, with_holes = made(allow_nan=True)
    assert not any(np.isnan(probe.arrays["x"]).any() for probe in without)
    assert any(np.isnan(probe.arrays["x"]).any() for probe in with_holes)


def test_the_same_seed_gives_the_same_probes():
    _, one = made()
    _, two = made()
    assert all(np.array_equal(a.arrays["x"], b.arrays["x"]) for a, b in zip(one, two, strict=True))
