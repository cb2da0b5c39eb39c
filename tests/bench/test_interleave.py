"""Turns are fair: every variant in every round, in changing order, warmed up, and short calls in groups."""

from __future__ import annotations

import gc
from collections import Counter
from functools import partial

import numpy as np
import pytest

from sardonyx.bench import interleave
from sardonyx.bench.interleave import Turn, measure, take_turns, timed
from sardonyx.errors import UsageError
from sardonyx.signature import Array


def pretending(seconds: float, log: list[tuple[str, int]], name: str, *, warm_after: int = 0) -> Turn:
    """A variant that says how long its calls took, and takes no time. Its first `warm_after` calls are ten times slower."""
    calls = Counter[str]()

    def turn(repeats: int) -> Array:
        log.append((name, repeats))
        taken = []
        for _ in range(repeats):
            calls[name] += 1
            taken.append(seconds * (10 if calls[name] <= warm_after else 1))
        return np.array(taken)

    return turn


def counted_rounds(log: list[tuple[str, int]], calls: int) -> list[str]:
    """The names of the turns of this many calls, in the order in which they came."""
    return [name for name, repeats in log if repeats == calls]


def test_every_variant_has_one_turn_in_every_round_and_the_order_changes() -> None:
    log: list[tuple[str, int]] = []
    found = measure({name: pretending(1e-4, log, name) for name in "abc"}, seconds=0.01, rounds_at_least=12)
    turns = counted_rounds(log, 10)
    rounds = [tuple(turns[start : start + 3]) for start in range(0, len(turns), 3)]
    assert len(rounds) >= 12
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds[:12])) > 1
    assert {name: len(times) for name, times in found.rounds.items()} == dict.fromkeys("abc", len(rounds))
    assert len(found.calls["a"]) == 10 * len(rounds)


def test_short_calls_are_grouped_and_each_group_has_an_uncounted_call_before_it() -> None:
    log: list[tuple[str, int]] = []
    found = measure({"a": pretending(20e-6, log, "a")}, seconds=0.001, rounds_at_least=5)
    groups = [index for index, (_, repeats) in enumerate(log) if repeats == 50]
    assert len(groups) >= 5
    assert all(log[index - 1] == ("a", 1) for index in groups)
    assert found.rounds["a"] == pytest.approx(20e-6)


def test_long_calls_are_not_grouped_and_have_no_lead_in() -> None:
    log: list[tuple[str, int]] = []
    measure({"a": pretending(0.5, log, "a")}, seconds=1e-6, rounds_at_least=4)
    assert all(repeats == 1 for _, repeats in log)
    assert len(log) <= 2 + 2 * interleave.WINDOW + 4 + 2


def test_warm_up_lasts_until_calls_are_stable_and_is_not_counted() -> None:
    log: list[tuple[str, int]] = []
    found = measure({"a": pretending(0.02, log, "a", warm_after=6)}, seconds=0.05, rounds_at_least=10)
    assert found.calls["a"].max() == pytest.approx(0.02)


def test_seeds_give_the_order() -> None:
    def order(seed: int) -> list[str]:
        log: list[tuple[str, int]] = []
        measure({name: pretending(1e-4, log, name) for name in "ab"}, seconds=0.001, rounds_at_least=20, seed=seed)
        return counted_rounds(log, 10)[:40]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_real_functions_are_measured_in_pairs() -> None:
    small, large = np.ones(10_000), np.ones(400_000)
    found = take_turns({"large": large.sum, "small": small.sum}, seconds=0.2)
    assert found["large"].shape == found["small"].shape
    assert interleave.speedup(found["large"], found["small"]).verdict == "faster"


def test_the_collector_waits_during_a_turn_and_works_again_after_it() -> None:
    seen: list[bool] = []
    timed(lambda: seen.append(gc.isenabled()))(3)
    assert seen == [False] * 3
    assert gc.isenabled()


def test_the_collector_works_again_after_a_variant_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        take_turns({"a": lambda: 1 // 0}, seconds=1)
    assert gc.isenabled()


@pytest.mark.parametrize(("ratio", "least", "most"), [(1.03, 20, 24), (3.0, 10, 14)])
def test_an_open_verdict_is_measured_for_twice_the_time(
    monkeypatch: pytest.MonkeyPatch, ratio: float, least: float, most: float
) -> None:
    """On a clock that only the variants move. They scatter so much that no interval leaves the edge."""
    clock, drawn = [0.0], np.random.default_rng(0)
    monkeypatch.setattr(interleave.time, "perf_counter", lambda: clock[0])

    def turn(ratio: float, scatter: float, repeats: int) -> Array:
        taken: Array = 0.02 * ratio * np.exp(drawn.normal(0, scatter, repeats))
        clock[0] += float(taken.sum())
        return taken

    measure({"a": partial(turn, ratio, 0.4), "b": partial(turn, 1.0, 0.4)}, seconds=10)
    assert least <= clock[0] <= most


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="cannot measure in"):
        take_turns({"a": list}, seconds=seconds)


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        take_turns({}, seconds=1)
