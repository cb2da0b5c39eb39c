"""Ratios of synthetic timings whose truth is known: the interval covers it as often as it says, on a hostile machine too."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.bench.ratio import MARGIN, Ratio, centre, speedup
from sardonyx.errors import UsageError
from sardonyx.signature import Array

TRIALS = 150


def machine(kind: str, rounds: int, drawn: np.random.Generator) -> tuple[Array, Array]:
    """The load that two variants meet in each round: what the machine does to both, and to each alone."""
    noise = 0.05 if kind != "quiet" else 0.01
    own = np.exp(drawn.normal(0, noise, (2, rounds)))
    if kind == "drift":  # the machine grows slower throughout
        own *= np.linspace(1, 3, rounds)
    if kind == "spikes":  # one call in ten is interrupted
        own *= np.where(drawn.random((2, rounds)) < 0.1, drawn.uniform(2, 10, (2, rounds)), 1)
    if kind == "contended":  # every second call waits for others
        own *= np.where(drawn.random((2, rounds)) < 0.5, drawn.uniform(2, 20, (2, rounds)), 1)
    if kind == "spells":  # busy spells of some twenty rounds that hit one variant harder than the other
        for row in own:
            row *= np.exp(remembering(rounds, drawn))
    return own[0], own[1]


def remembering(rounds: int, drawn: np.random.Generator, memory: float = 0.85) -> Array:
    """A series in which each value is mostly the one before."""
    found, steps = np.zeros(rounds), drawn.normal(0, 0.02, rounds)
    for index in range(1, rounds):
        found[index] = memory * found[index - 1] + steps[index]
    return found


def coverage(kind: str, rounds: int, truth: float) -> float:
    drawn = np.random.default_rng(7)
    hits = 0
    for _ in range(TRIALS):
        slow, fast = machine(kind, rounds, drawn)
        found = speedup(truth * slow, fast)
        hits += found.low <= truth <= found.high
    return hits / TRIALS


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["quiet", "noisy", "drift", "spikes", "contended", "spells"])
@pytest.mark.parametrize("rounds", [10, 100])
def test_the_interval_covers_the_truth_nineteen_times_in_twenty(kind: str, rounds: int) -> None:
    # Two standard errors of the share that these trials can show. Spells last a tenth of the longer run, and are not to be
    # told from the truth in the shorter one.
    least = 0.82 if kind == "spells" else 0.95 - 2 * (0.95 * 0.05 / TRIALS) ** 0.5
    assert coverage(kind, rounds, truth=1.3) >= least


def test_the_interval_covers_the_truth_on_a_noisy_machine() -> None:
    assert coverage("noisy", 40, truth=1.3) >= 0.95 - 2 * (0.95 * 0.05 / TRIALS) ** 0.5


def test_an_interval_that_takes_rounds_for_independent_is_too_narrow() -> None:
    """The seeded fault: the same series shuffled has the same spread and no memory."""
    drawn = np.random.default_rng(3)
    slow, fast = machine("spells", 200, drawn)
    honest, order = speedup(slow, fast), drawn.permutation(200)
    shuffled = speedup(slow[order], fast[order])
    assert honest.high - honest.low > 1.5 * (shuffled.high - shuffled.low)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("truth", "verdict"), [(1.0, "no-difference"), (1.1, "faster"), (1 / 1.1, "slower"), (2.0, "faster")]
)
@pytest.mark.parametrize("kind", ["quiet", "noisy", "drift", "spikes", "contended", "spells"])
def test_the_verdict_is_the_same_nineteen_times_in_twenty(kind: str, truth: float, verdict: str) -> None:
    drawn = np.random.default_rng(11)
    found = []
    for _ in range(20):
        slow, fast = machine(kind, 400, drawn)
        found.append(speedup(truth * slow, fast).verdict)
    assert found.count(verdict) >= 19  # type: ignore[arg-type]


def test_a_ratio_and_its_inverse_mirror_each_other() -> None:
    drawn = np.random.default_rng(1)
    a, b = np.exp(drawn.normal(0, 0.1, (2, 50)))
    there, back = speedup(1.5 * a, b), speedup(b, 1.5 * a)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert (there.verdict, back.verdict) == ("faster", "slower")


def test_a_difference_within_the_margin_is_none_however_sure_it_is() -> None:
    steady = np.full(100, 1.0)
    assert speedup((1 + MARGIN / 2) * steady, steady).verdict == "no-difference"
    assert speedup((1 + MARGIN * 2) * steady, steady).verdict == "faster"


@pytest.mark.parametrize(
    ("ratio", "decided"),
    [
        (Ratio(1.0, 0.99, 1.01), True),
        (Ratio(1.0, 0.9, 1.1), False),
        (Ratio(1.03, 1.01, 1.05), False),
        (Ratio(1.2, 1.1, 1.3), True),
        (Ratio(0.8, 0.7, 0.9), True),
    ],
)
def test_an_interval_on_an_edge_is_not_decided(ratio: Ratio, decided: bool) -> None:
    assert ratio.decided is decided


def test_the_centre_is_the_mean_of_the_middle_half() -> None:
    assert centre(np.array([1.0, 2.0, 3.0, 1000.0])) == 2.5
    assert centre(np.array([5.0])) == 5.0


@pytest.mark.parametrize(
    ("of", "to"), [(np.ones(3), np.ones(4)), (np.ones(1), np.ones(1)), (np.ones((2, 2)), np.ones((2, 2)))]
)
def test_rounds_that_do_not_pair_are_refused(of: Array, to: Array) -> None:
    with pytest.raises(UsageError, match="cannot pair"):
        speedup(of, to)


def test_a_ratio_reads_as_text_and_as_json() -> None:
    found = Ratio(1.5, 1.25, 2.0)
    assert str(found) == "1.50 (1.25 to 2.00)"
    assert found.to_dict() == {"ratio": 1.5, "low": 1.25, "high": 2.0, "verdict": "faster"}
