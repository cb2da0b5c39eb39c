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
from sardonyx.errors import UsageError
from sardonyx.signature import Array
from sardonyx.sources import seconds_of

__all__ = ["Ratio", "Timings", "Turn", "measure", "speedup", "take_turns", "timed"]

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
WINDOW, STABLE, WARMUP_SHARE = 4, 0.05, 0.25
# An interval on the edge of a verdict gets up to this many times the seconds asked for. It is looked at each time that the
# time has doubled: whoever looks often enough will see whatever they wait for.
EXTENSION = 2.0


@dataclass(frozen=True)
class Timings:
    """Seconds by variant: `rounds` has an undisturbed call of every round, paired by index; `calls` has every single call."""

    rounds: dict[str, Array]
    calls: dict[str, Array]


def take_turns(
    variants: Mapping[str, Callable[[], object]], *, seconds: float, rounds_at_least: int = 10, seed: int = 0
) -> dict[str, Array]:
    """The seconds of an undisturbed call of each variant in every round, paired by index, warm-up left out.

    `seconds` is for all variants together. While the ratio of the first variant to another lies on the edge of a verdict,
    measuring goes on, to twice that time at most; slow calls go on until there are `rounds_at_least` rounds.
    """
    turns = {name: timed(call) for name, call in variants.items()}
    return measure(turns, seconds=seconds, rounds_at_least=rounds_at_least, seed=seed).rounds


def timed(call: Callable[[], object]) -> Turn:
    """A function of this process as a variant. The collector waits until the turn is over."""
    return lambda repeats: np.array(seconds_of(call, repeats))  # type: ignore[no-untyped-call]


def measure(
    turns: Mapping[str, Turn],
    *,
    seconds: float,
    rounds_at_least: int = 10,
    seed: int = 0,
    extension: float = EXTENSION,
) -> Timings:
    """What `take_turns` gives, and every single call, for variants that time themselves. Edges get `extension` times the time."""
    if not turns:
        raise UsageError("there is nothing to measure", hint="give at least one variant")
    if not seconds > 0:
        raise UsageError(f"cannot measure in {seconds:g} seconds", hint="give more than 0")
    with progress.task("warming up"):
        typical = {name: _warm(turn, WARMUP_SHARE * seconds / len(turns)) for name, turn in turns.items()}
    length = max(TURN_SECONDS, seconds / len(turns) / ROUNDS)
    repeats = {name: _repeats(once, length) for name, once in typical.items()}
    taken: dict[str, list[Array]] = {name: [] for name in turns}
    order, shuffled = list(turns), random.Random(seed)
    with progress.task("measuring", total=seconds) as advance:
        for passed in _while_undecided(taken, seconds, rounds_at_least, extension):
            advance(passed)
            shuffled.shuffle(order)
            for name in order:
                if typical[name] < LEAD_IN_BELOW:
                    turns[name](1)
                taken[name].append(turns[name](repeats[name]))
    return Timings({name: _rounds(found) for name, found in taken.items()}, _joined(taken))


def _repeats(once: float, length: float) -> int:
    """How many calls make a turn of this length."""
    least = CALLS_AT_LEAST if once < LEAD_IN_BELOW else 1
    return int(np.clip(np.ceil(length / once), least, CALLS_AT_MOST))


def _warm(turn: Turn, seconds: float) -> float:
    """Calls until the time of a call is stable, and gives it. The very first call may compile and does not count."""
    turn(1)
    end, found = time.perf_counter() + seconds, [float(turn(1)[0])]
    while time.perf_counter() < end or len(found) < 2:
        found.append(float(turn(1)[0]))
        before, last = np.median(found[-2 * WINDOW : -WINDOW] or found[:1]), np.median(found[-WINDOW:])
        if len(found) >= 2 * WINDOW and abs(last / before - 1) < STABLE:
            break
    return max(min(found), 1e-9)  # a busy moment must not make turns short


def _while_undecided(
    taken: Mapping[str, list[Array]], seconds: float, rounds_at_least: int, extension: float
) -> Iterator[float]:
    """Yields once a round, the seconds since the last, until the time is up and no ratio is on an edge."""
    started = last = time.perf_counter()
    looked, rounds = seconds, 0
    while True:
        now = time.perf_counter()
        passed = now - started
        if rounds >= rounds_at_least and passed >= looked:
            if passed >= extension * seconds or not _on_the_edge(taken):
                return
            looked = min(2 * passed, extension * seconds)
        yield now - last
        last, rounds = now, rounds + 1


def _on_the_edge(taken: Mapping[str, list[Array]]) -> bool:
    """Whether the interval of the first variant's ratio to another leaves its verdict open."""
    first, *others = (_rounds(found) for found in taken.values())
    return any(not speedup(first, other).decided for other in others)


def _rounds(found: list[Array]) -> Array:
    return np.array([undisturbed(calls) for calls in found])


def _joined(taken: Mapping[str, list[Array]]) -> dict[str, Array]:
    return {name: np.concatenate(found) for name, found in taken.items()}
