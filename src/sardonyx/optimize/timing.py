"""Which of several equal models is the fastest here, and is it really not slower than the input?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sardonyx.bench.interleave import Ratio, speedup, take_turns
from sardonyx.model import Model
from sardonyx.optimize.entry import INPUT, Entry
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Array, Arrays

# The first heat finds the likely winner, the second, on fresh rounds, says how fast it is: the best of many looks better
# than it is.
FIRST_HEAT = 0.6
# Sessions that are open at the same time hold at most this many bytes of weights; beyond, candidates meet the input in pairs.
TOGETHER = 2 << 30
# How often the winner and the input are opened anew to prove it.
OPENINGS = 3


def race(entries: Sequence[Entry], inputs: Arrays, *, seconds: float, seed: int) -> list[Entry]:
    """The candidates that stand, best first, the input among them; each with its speed-up over the input."""
    rounds = _heat(entries, inputs, FIRST_HEAT * seconds, seed)
    for entry in entries:
        theirs, mine = rounds[entry.name]
        entry.speedup = speedup(theirs, mine)
    return ranked(entries, rounds)


def ranked(entries: Sequence[Entry], rounds: Mapping[str, tuple[Array, Array]]) -> list[Entry]:
    """By speed; those that are not shown to be slower than the fastest of the rest, by what else speaks for them."""
    left, order = list(entries), []
    while left:
        fastest = max(left, key=_ratio)
        tied = [entry for entry in left if entry is fastest or _as_fast(rounds, fastest, entry)]
        best = min(tied, key=_merits)
        order.append(best)
        left.remove(best)
    return order


def confirm(entry: Entry, rival: Entry, inputs: Arrays, *, seconds: float, seed: int) -> Ratio:
    """How many times faster the candidate is than the input, on rounds of their own.

    Both are opened anew several times: where the threads and the memory of a session happen to lie can make it slow for
    as long as it lives. The interval spans all of them, so that a verdict is one that each of them gives.
    """
    assert entry.path is not None, "only candidates that were made stand"
    assert rival.path is not None, "the input has a file"
    pair, share = {INPUT: rival.path, entry.name: entry.path}, (1 - FIRST_HEAT) * seconds / OPENINGS
    heats = [run_in_turns(pair, inputs, seconds=share, seed=seed + 1 + turn) for turn in range(OPENINGS)]
    ratios = [speedup(heat[INPUT], heat[entry.name]) for heat in heats]
    typical = math.exp(sum(math.log(ratio.ratio) for ratio in ratios) / len(ratios))
    return Ratio(typical, min(ratio.low for ratio in ratios), max(ratio.high for ratio in ratios))


def run_in_turns(models: Mapping[str, Path], inputs: Arrays, *, seconds: float, seed: int) -> dict[str, Array]:
    """Seconds of every round, paired by index."""
    calls: dict[str, Callable[[], object]] = {
        name: _caller(Session(path, Settings(rests=True)), inputs) for name, path in models.items()
    }
    return take_turns(calls, seconds=seconds, seed=seed)


def _caller(session: Session, inputs: Arrays) -> Callable[[], object]:
    return lambda: session.run_fitted(inputs)


def _heat(entries: Sequence[Entry], inputs: Arrays, seconds: float, seed: int) -> dict[str, tuple[Array, Array]]:
    """For each candidate the rounds of the input and its own."""
    paths = {entry.name: entry.path for entry in entries if entry.path is not None}
    weights = Model.load(paths[INPUT]).weight_bytes()
    if weights * len(paths) <= TOGETHER:
        timings = run_in_turns(paths, inputs, seconds=seconds, seed=seed)
        return {name: (timings[INPUT], timings[name]) for name in paths}
    found = {}
    for name in paths:
        pair = {INPUT: paths[INPUT], f"{name} ": paths[name]}  # the input too meets itself
        timings = run_in_turns(pair, inputs, seconds=seconds / len(paths), seed=seed)
        found[name] = (timings[INPUT], timings[f"{name} "])
    return found


def _ratio(entry: Entry) -> float:
    assert entry.speedup is not None, "the first heat measured all"
    return entry.speedup.ratio


def _as_fast(rounds: Mapping[str, tuple[Array, Array]], fastest: Entry, entry: Entry) -> bool:
    """Whether the candidate is not shown to be slower than the fastest. Those that met only the input are told by it."""
    if rounds[fastest.name][0] is rounds[entry.name][0]:
        return speedup(rounds[fastest.name][1], rounds[entry.name][1]).verdict != "slower"
    assert fastest.speedup is not None, "the first heat measured all"
    assert entry.speedup is not None, "the first heat measured all"
    return entry.speedup.high >= fastest.speedup.low


def _merits(entry: Entry) -> tuple[bool, int, int, bool]:
    """What decides between equally fast ones: any runtime, fewer nodes, a smaller file, and at last the input."""
    return (not entry.portable, entry.nodes or 0, entry.bytes or 0, entry.name != INPUT)
