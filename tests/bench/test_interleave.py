"""Turns are fair: every variant in every round, in changing order, warmed up, and short calls in groups."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from sardonyx.bench import interleave
from sardonyx.bench.interleave import Turn, measure, take_turns, timed
from sardonyx.deadline import Deadline
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
    found = measure({name: pretending(1e-4, log, name) for name in "abc"}, seconds=0.01)
    turns = counted_rounds(log, 10)
    rounds = [tuple(turns[start : start + 3]) for start in range(0, len(turns), 3)]
    assert len(rounds) >= interleave.ROUNDS_WANTED
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds[: interleave.ROUNDS_WANTED])) > 1
    assert {name: len(times) for name, times in found.rounds.items()} == dict.fromkeys("abc", len(rounds))
    assert len(found.calls["a"]) == 10 * len(rounds)


def test_short_calls_are_grouped_and_each_group_has_an_uncounted_call_before_it() -> None:
    log: list[tuple[str, int]] = []
    found = measure({"a": pretending(20e-6, log, "a")}, seconds=0.001)
    groups = [index for index, (_, repeats) in enumerate(log) if repeats == 50]
    assert len(groups) >= 5
    assert all(log[index - 1] == ("a", 1) for index in groups)
    assert found.rounds["a"] == pytest.approx(20e-6)


def test_long_calls_are_not_grouped_and_have_no_lead_in() -> None:
    log: list[tuple[str, int]] = []
    measure({"a": pretending(0.5, log, "a")}, seconds=1e-6)
    assert all(repeats == 1 for _, repeats in log)
    assert len(log) == 1 + interleave.ROUNDS_WANTED


def test_warm_up_lasts_until_calls_are_stable_and_is_not_counted() -> None:
    log: list[tuple[str, int]] = []
    found = measure({"a": pretending(0.002, log, "a", warm_after=6)}, seconds=0.5)
    assert found.calls["a"].max() == pytest.approx(0.002)


def test_seeds_give_the_order() -> None:
    def order(seed: int) -> list[str]:
        log: list[tuple[str, int]] = []
        measure({name: pretending(1e-4, log, name) for name in "ab"}, seconds=0.02, seed=seed)
        return counted_rounds(log, 10)[: 2 * interleave.ROUNDS_WANTED]

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


class Machine:
    """A clock that only the variants move. `busy(call)` says how many times longer a call takes than it should."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy: Callable[[int], float] = lambda _: 1.0) -> None:
        self.now, self.calls, self._busy = 0.0, 0, busy
        monkeypatch.setattr(interleave.time, "perf_counter", lambda: self.now)

    def variant(self, seconds: float, scatter: float = 0.0, seed: int = 0) -> Turn:
        drawn = np.random.default_rng(seed)

        def turn(repeats: int) -> Array:
            taken = []
            for _ in range(repeats):
                self.calls += 1
                taken.append(seconds * self._busy(self.calls) * float(np.exp(drawn.normal(0, scatter))))
            self.now += sum(taken)
            return np.array(taken)

        return turn


@pytest.mark.parametrize(("ratio", "least", "most"), [(1.03, 9.5, 10), (3.0, 5, 6)])
def test_a_clear_verdict_takes_half_the_time_and_an_open_one_all_of_it(
    monkeypatch: pytest.MonkeyPatch, ratio: float, least: float, most: float
) -> None:
    """The variants scatter so much that no interval leaves the edge."""
    machine = Machine(monkeypatch)
    measure({"a": machine.variant(0.02 * ratio, 0.4), "b": machine.variant(0.02, 0.4, 1)}, seconds=10)
    assert least <= machine.now <= most


BUSY: dict[str, Callable[[int], float]] = {
    "quiet": lambda _: 1.0,
    "busy": lambda call: 1.0 + 2.0 * (call % 3 == 0),
    "busier and busier": lambda call: min(1.0 + call / 20, 4.0),
    "the first calls are slow": lambda call: 8.0 if call <= 3 else 1.0,
}


@pytest.mark.parametrize("load", BUSY)
@pytest.mark.parametrize("variants", [1, 2, 9])
@pytest.mark.parametrize("call", [1e-4, 0.05, 0.2, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("seconds", [0.01, 2.0, 10.0])
def test_the_time_is_kept_whatever_a_call_takes(
    monkeypatch: pytest.MonkeyPatch, load: str, variants: int, call: float, seconds: float
) -> None:
    """Within a quarter, two seconds where less was asked for, or the one call of each that says how slow they are.

    What nobody can foresee is that the last round takes longer than those before it.
    """
    machine = Machine(monkeypatch, BUSY[load])
    found = measure({str(place): machine.variant(call) for place in range(variants)}, seconds=seconds)
    once = sum(call * BUSY[load](number) for number in range(1, variants + 1))
    slowest = call * max(BUSY[load](number) for number in range(1, 200))
    surprise = variants * (slowest - call)
    assert machine.now <= max(1.25 * seconds, 1.25 * interleave.GRACE, once) + surprise
    assert all(len(times) >= 1 for times in found.calls.values())
    if interleave.least_seconds(variants * slowest) <= seconds:
        assert found.comparable


def test_calls_that_are_too_slow_for_the_time_are_counted_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    found = measure({name: machine.variant(6.0) for name in "ab"}, seconds=10)
    assert machine.calls == 2
    assert not found.comparable
    assert found.round_seconds == pytest.approx(12)
    assert found.calls["a"] == pytest.approx(6)


def test_functions_have_three_rounds_whatever_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)

    def slow() -> None:
        machine.now += 6.0

    found = take_turns({"a": slow, "b": slow}, seconds=10)
    assert found["a"] == pytest.approx([6.0] * interleave.ROUNDS_AT_LEAST)


def test_beyond_the_limit_no_round_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    limit = Deadline(1.0, clock=lambda: machine.now)
    found = measure({name: machine.variant(0.2) for name in "ab"}, seconds=10, limit=limit)
    assert machine.now <= 1.01 + 0.4  # to warm up took some of it
    assert not found.comparable


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="cannot measure in"):
        take_turns({"a": list}, seconds=seconds)


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        take_turns({}, seconds=1)
