"""Variants that take turns in one run, so that a busy moment hits all of them, and their ratio with an interval.

A turn is a handful of calls of one variant; a round is one turn of each, in random order; a ratio is formed inside rounds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sardonyx import progress
from sardonyx.bench.ratio import Ratio, speedup, undisturbed
from sardonyx.deadline import Deadline
from sardonyx.errors import UsageError
from sardonyx.measuring import Watch
from sardonyx.signature import Array
from sardonyx.sources import seconds_of

__all__ = ["Ratio", "Timings", "Turn", "least_seconds", "measure", "speedup", "take_turns", "timed"]

# What a variant does in its turn: so many calls, and the seconds of each. A worker process times itself.
Turn = Callable[[int], Array]

# A turn this long stands well above the clock (50 ns) and the cost of a wake-up (50 µs).
TURN_SECONDS = 1e-3
# Short calls come in fives at least, so that one that was interrupted does not stand for its round.
CALLS_AT_LEAST = 5
# More rounds than this narrow an interval no further: turns grow longer instead, which costs fewer changes of caches.
ROUNDS = 500
CALLS_AT_MOST = 2000
# Above this the caches that another variant has emptied no longer matter, and a call before the first counted one is waste.
LEAD_IN_BELOW = 10e-3
# Warm-up ends when the last few calls are as fast as the few before them, or after this share of the time.
WINDOW, STABLE, WARMUP_SHARE = 4, 0.05, 0.2
# Measuring ends after this share of the time where no interval is on the edge of a verdict. It is looked at there, and when the
# time is up: a look after every round would sooner or later end it by chance.
ENOUGH = 0.5
# Rounds that a comparison needs, and those that it should have. They may take this much longer than was asked for, or two
# seconds in all: a moment in which the machine does something else must not end a measurement of milliseconds.
ROUNDS_AT_LEAST, ROUNDS_WANTED = 3, 10
OVERTIME, GRACE = 0.2, 2.0


@dataclass(frozen=True)
class Timings:
    """Seconds by variant: `rounds` has an undisturbed call of every round, paired by index; `calls` has every single call.

    Where calls are too slow for the time, there are fewer rounds than a comparison needs, and `comparable` is false.
    `round_seconds` is what a round takes, `others` how much of the machine other processes took meanwhile.
    """

    rounds: dict[str, Array]
    calls: dict[str, Array]
    round_seconds: float = 0.0
    others: float | None = None

    @property
    def comparable(self) -> bool:
        return all(len(found) >= ROUNDS_AT_LEAST for found in self.rounds.values())


def take_turns(variants: Mapping[str, Callable[[], object]], *, seconds: float, seed: int = 0) -> dict[str, Array]:
    """The seconds of an undisturbed call of each variant in every round, paired by index, warm-up left out.

    `seconds` is for all variants together, warm-up included. Half of it does where no ratio of the first variant to another
    lies on the edge of a verdict. Three rounds are made whatever they take.
    """
    turns = {name: timed(call) for name, call in variants.items()}
    return measure(turns, seconds=seconds, seed=seed, insist=True).rounds


def least_seconds(round_seconds: float) -> float:
    """The least time that allows a comparison of variants that take so long together: to warm up, and the fewest rounds."""
    return (2 + ROUNDS_AT_LEAST) * round_seconds


def timed(call: Callable[[], object]) -> Turn:
    """A function of this process as a variant. The collector waits until the turn is over."""
    return lambda repeats: np.array(seconds_of(call, repeats))  # type: ignore[no-untyped-call]


def measure(
    turns: Mapping[str, Turn],
    *,
    seconds: float,
    seed: int = 0,
    enough: float = ENOUGH,
    limit: Deadline | None = None,
    insist: bool = False,
) -> Timings:
    """What `take_turns` gives, and every single call, for variants that time themselves.

    Each variant is called once at least, whatever that takes. After `enough` of the time it ends where verdicts are clear.
    Beyond the `limit` not even the rounds are made that a comparison needs, unless someone insists on them.
    """
    if not turns:
        raise UsageError("there is nothing to measure", hint="give at least one variant")
    if not seconds > 0:
        raise UsageError(f"cannot measure in {seconds:g} seconds", hint="give more than 0")
    if limit is not None:
        seconds = min(seconds, max(limit.left, TURN_SECONDS))
    started, watch = time.perf_counter(), Watch()
    with watch:
        with progress.task("warming up"):
            typical = {name: _warm(turn, seconds / len(turns), GRACE / len(turns)) for name, turn in turns.items()}
        length = max(TURN_SECONDS, seconds / len(turns) / ROUNDS)
        repeats = {name: _repeats(once, length) for name, once in typical.items()}
        taken: dict[str, list[Array]] = {name: [] for name in turns}
        estimate = sum(typical[name] * (repeats[name] + _leads_in(typical[name])) for name in turns)
        order, shuffled = list(turns), random.Random(seed)
        with progress.task("measuring", total=seconds) as advance:
            for passed in _rounds_in(taken, started, seconds, enough * seconds, estimate, limit, insist):
                advance(passed)
                shuffled.shuffle(order)
                for name in order:
                    if _leads_in(typical[name]):
                        turns[name](1)
                    taken[name].append(turns[name](repeats[name]))
    if not all(taken.values()):  # so slow that the warm-up is all there is
        taken = {name: [np.array([once])] for name, once in typical.items()}
    return Timings({name: _rounds(found) for name, found in taken.items()}, _joined(taken), estimate, watch.share)


def _leads_in(once: float) -> bool:
    """Whether a call before the first counted one makes a difference."""
    return once < LEAD_IN_BELOW


def _repeats(once: float, length: float) -> int:
    """How many calls make a turn of this length."""
    least = CALLS_AT_LEAST if _leads_in(once) else 1
    return int(np.clip(np.ceil(length / once), least, CALLS_AT_MOST))


def _warm(turn: Turn, seconds: float, grace: float) -> float:
    """Calls until the time of a call is stable, and gives it. The very first call may compile, and counts only if it is all.

    `seconds` is what the variant has of the whole time, `grace` what it has in any case.
    """
    end = time.perf_counter() + WARMUP_SHARE * seconds
    first = float(turn(1)[0])
    if ROUNDS_WANTED * first > max(seconds, grace):
        return first
    found = [float(turn(1)[0])]
    while time.perf_counter() < end:
        found.append(float(turn(1)[0]))
        before, last = np.median(found[-2 * WINDOW : -WINDOW] or found[:1]), np.median(found[-WINDOW:])
        if len(found) >= 2 * WINDOW and abs(last / before - 1) < STABLE:
            break
    return max(min(found), 1e-9)  # a busy moment must not make turns short


def _rounds_in(
    taken: Mapping[str, list[Array]],
    started: float,
    seconds: float,
    enough: float,
    estimate: float,
    limit: Deadline | None,
    insist: bool,
) -> Iterator[float]:
    """Yields once a round, the seconds since the last, while another round fits into the time and a verdict is open."""
    last, looked = started, False
    lasted: list[float] = []
    while True:
        now = time.perf_counter()
        passed = now - started
        expected = float(np.median(lasted[-WINDOW:] or [estimate]))
        fits = _fits(passed, len(lasted), expected, seconds) and (limit is None or limit.allows(expected))
        if not fits and not (insist and len(lasted) < ROUNDS_AT_LEAST):
            return
        if passed >= enough and len(lasted) >= ROUNDS_WANTED and not looked:
            looked = True
            if not _on_the_edge(taken):
                return
        yield now - last
        last = now
        lasted.append(time.perf_counter() - now)  # the machine may be busier than it was at the warm-up


def _fits(passed: float, rounds: int, estimate: float, seconds: float) -> bool:
    """Whether one more round may be begun: within the time, or a little beyond it where too few were made."""
    most = seconds
    if rounds < ROUNDS_AT_LEAST:
        most = max((1 + OVERTIME) * seconds, GRACE)
    elif rounds < ROUNDS_WANTED:
        most = max(seconds, GRACE)
    return passed + estimate <= most


def _on_the_edge(taken: Mapping[str, list[Array]]) -> bool:
    """Whether the interval of the first variant's ratio to another leaves its verdict open."""
    first, *others = (_rounds(found) for found in taken.values())
    return any(not speedup(first, other).decided for other in others)


def _rounds(found: list[Array]) -> Array:
    return np.array([undisturbed(calls) for calls in found])


def _joined(taken: Mapping[str, list[Array]]) -> dict[str, Array]:
    return {name: np.concatenate(found) for name, found in taken.items()}
