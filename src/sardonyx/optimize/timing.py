"""Which of several equal models is the fastest here, and is it really not slower than the input?"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sardonyx.bench.interleave import Ratio, Timings, Turn, least_seconds, measure, speedup, timed
from sardonyx.deadline import OUT_OF_TIME, Deadline, OutOfTime
from sardonyx.model import Model
from sardonyx.optimize.entry import INPUT, Entry
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Array, Arrays

# The first heat finds the likely winner, the second, on fresh rounds, says how fast it is: the best of many looks better
# than it is.
FIRST_HEAT = 0.6
# Of the time that is left, so much is for the first heat at most, to open sessions included; half of it to open them.
HEAT, OPENING = 0.6, 0.5
# Sessions that are open at the same time hold at most this many bytes of weights; beyond, candidates meet the input in pairs.
TOGETHER = 2 << 30
# How often the winner and the input are opened anew to prove it.
OPENINGS = 3

Rounds = Mapping[str, tuple[Array, Array]]
logger = logging.getLogger(__name__)


def race(entries: Sequence[Entry], inputs: Arrays, *, seconds: float, limit: Deadline, seed: int) -> list[Entry]:
    """The candidates that stand, best first, the input among them; each with its speed-up over the input.

    Measuring takes about `seconds`. What there is no time for before the limit is put out.
    """
    rounds = _heat(entries, inputs, FIRST_HEAT * seconds, limit.share(HEAT), seed)
    for entry in entries:
        if entry.name in rounds:
            theirs, mine = rounds[entry.name]
            entry.speedup = speedup(theirs, mine)
        elif entry.name != INPUT:
            entry.out("not-tried", OUT_OF_TIME)
    return ranked([entry for entry in entries if entry.name in rounds], rounds)


def ranked(entries: Sequence[Entry], rounds: Rounds) -> list[Entry]:
    """By speed; those that are not shown to be slower than the fastest of the rest, by what else speaks for them."""
    left, order = list(entries), []
    while left:
        fastest = max(left, key=_ratio)
        tied = [entry for entry in left if entry is fastest or _as_fast(rounds, fastest, entry)]
        best = min(tied, key=_merits)
        order.append(best)
        left.remove(best)
    return order


def confirm(entry: Entry, rival: Entry, inputs: Arrays, *, seconds: float, limit: Deadline, seed: int) -> Ratio | None:
    """How many times faster the candidate is than the input, on rounds of their own; None where there is no time to tell.

    Both are opened anew several times, as often as there is time for: where the threads and the memory of a session happen
    to lie can make it slow for as long as it lives. The interval spans all of them, so that a verdict is one that each gives.
    """
    assert entry.path is not None, "only candidates that were made stand"
    assert rival.path is not None, "the input has a file"
    pair, share = {INPUT: rival.path, entry.name: entry.path}, (1 - FIRST_HEAT) * seconds / OPENINGS
    ratios: list[Ratio] = []
    for turn in range(OPENINGS):
        started = time.monotonic()
        heat = run_in_turns(pair, inputs, seconds=share, limit=limit.share(1 / (OPENINGS - turn)), seed=seed + 1 + turn)
        if heat is not None and heat.comparable:
            ratios.append(speedup(heat.rounds[INPUT], heat.rounds[entry.name]))
        if not limit.allows(time.monotonic() - started):  # another one would take as long
            break
    if not ratios:
        return None
    typical = math.exp(sum(math.log(ratio.ratio) for ratio in ratios) / len(ratios))
    return Ratio(typical, min(ratio.low for ratio in ratios), max(ratio.high for ratio in ratios))


def run_in_turns(
    models: Mapping[str, Path], inputs: Arrays, *, seconds: float, limit: Deadline, seed: int
) -> Timings | None:
    """The timings of the first models, as many as there is time to open and to compare; None where that is not two."""
    turns: dict[str, Turn] = {}
    once = 0.0
    try:
        with limit.enforced():
            for name, path in models.items():
                if len(turns) > 1 and limit.taken > OPENING * limit.seconds:
                    break
                turn = timed(_caller(Session(path, Settings(rests=True)), inputs))
                once = max(once, float(turn(1)[0]))
                if not limit.allows(least_seconds((len(turns) + 1) * once)):
                    break
                turns[name] = turn
    except OutOfTime:
        logger.debug("%s of %s models were opened in time", len(turns), len(models))
    if len(turns) < 2:
        return None
    # Outside of the block: to end a call costs microseconds, which would count.
    return measure(turns, seconds=seconds, seed=seed, limit=limit)


def _caller(session: Session, inputs: Arrays) -> Callable[[], object]:
    return lambda: session.run_fitted(inputs)


def _heat(entries: Sequence[Entry], inputs: Arrays, seconds: float, limit: Deadline, seed: int) -> Rounds:
    """For each candidate that there was time for, the rounds of the input and its own. The leanest come first."""
    leanest = sorted(entries, key=lambda entry: (entry.name != INPUT, _merits(entry)))
    paths = {entry.name: entry.path for entry in leanest if entry.path is not None}
    weights = Model.load(paths[INPUT]).weight_bytes()
    if weights * len(paths) <= TOGETHER:
        timings = run_in_turns(paths, inputs, seconds=seconds, limit=limit, seed=seed)
        if timings is None or not timings.comparable:
            return {}
        return {name: (timings.rounds[INPUT], mine) for name, mine in timings.rounds.items()}
    found = {}
    for place, name in enumerate(paths):
        pair = {INPUT: paths[INPUT], f"{name} ": paths[name]}  # the input too meets itself
        share = limit.share(1 / (len(paths) - place))
        timings = run_in_turns(pair, inputs, seconds=seconds / len(paths), limit=share, seed=seed)
        if timings is not None and timings.comparable:
            found[name] = (timings.rounds[INPUT], timings.rounds[f"{name} "])
    return found


def _ratio(entry: Entry) -> float:
    assert entry.speedup is not None, "the first heat measured all"
    return entry.speedup.ratio


def _as_fast(rounds: Rounds, fastest: Entry, entry: Entry) -> bool:
    """Whether the candidate is not shown to be slower than the fastest. Those that met only the input are told by it."""
    if rounds[fastest.name][0] is rounds[entry.name][0]:
        return speedup(rounds[fastest.name][1], rounds[entry.name][1]).verdict != "slower"
    assert fastest.speedup is not None, "the first heat measured all"
    assert entry.speedup is not None, "the first heat measured all"
    return entry.speedup.high >= fastest.speedup.low


def _merits(entry: Entry) -> tuple[bool, int, int, bool]:
    """What decides between equally fast ones: any runtime, fewer nodes, a smaller file, and at last the input."""
    return (not entry.portable, entry.nodes or 0, entry.bytes or 0, entry.name != INPUT)
