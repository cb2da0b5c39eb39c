"""How a model is to be run, measured when it is loaded: whether batching is right, whether it pays, and where to run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.agreement import for_rounding, judge
from sardonyx.errors import SardonyxError, UsageError
from sardonyx.serve.join import Join
from sardonyx.serve.terms import Terms
from sardonyx.signature import Array, Signature

Run = Callable[[tuple[str, ...], Sequence[Array]], list[Array]]
Clock = Callable[[], float]

LARGEST = 64
_BUDGET_SECONDS = 1.5
_ROUNDS = 7
# Small batches are run several times a round, up to so many rows: their cost would else hang on a few moments.
_ROWS_A_ROUND = 8
# A row of the chosen batch must cost less than this share of a lone row, or batching only adds waiting.
_PAYS_BELOW = 0.9
# A batch this much dearer a row than the best one is as good, and smaller ones wait less.
_NEARLY_BEST = 1.25
# Running on the event loop saves two thread switches, and holds up everyone else: only for what is quicker than those.
_INLINE_SECONDS = 250e-6
# A thread that has the next run ready need not wait for the event loop. Who comes first is settled a run earlier for it, so
# only for what is done soon.
_AHEAD_SECONDS = 20e-3
# A wait for company costs at most this share of a lone run, and never more than this.
_PATIENCE, _PATIENCE_SECONDS = 0.25, 2e-3


@dataclass(frozen=True)
class Policy:
    """The most rows of a run, whether it runs on the event loop, why, and the microseconds a row took by batch size.

    `patience` is how many seconds a batch may wait for those who were just answered: the first to come back would else
    run alone, at the full price. So many runs `ahead`, of full batches, lie ready while all threads are busy.
    """

    most: int = 1
    inline: bool = False
    reason: str = "not measured"
    patience: float = 0.0
    row_microseconds: dict[int, float] | None = None
    ahead: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "max_batch": self.most,
            "inline": self.inline,
            "ahead": self.ahead,
            "reason": self.reason,
            "row_microseconds": {str(size): round(cost, 1) for size, cost in (self.row_microseconds or {}).items()},
        }


def measure(
    run: Run,
    signature: Signature,
    terms: Terms,
    *,
    most: int | None,
    quick: bool,
    clock: Clock = time.perf_counter,
) -> Policy:
    """The policy for a model, by running it on generated inputs. `quick` says that its time does not hang on its inputs.

    Of a model that computes in the thread that calls it, `time.thread_time` tells the time whatever else the machine does.
    """
    rows = [sample_inputs(signature, seed) for seed in range(4)]
    why_not = "batching is switched off" if most == 1 else _why_not(run, terms, rows)
    if why_not:
        cost = _seconds(run, terms, {1: rows[:1]}, clock)[1]
        return _one_by_one(cost, why_not, {1: cost * 1e6}, quick=quick)
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if size <= (most or LARGEST)]
    sizes += [most] if most and most not in sizes else []
    seconds = _seconds(run, terms, {size: [rows[index % len(rows)] for index in range(size)] for size in sizes}, clock)
    return choose(seconds, quick=quick)


def why_not_batched(run: Run, signature: Signature, terms: Terms) -> str:
    """Why requests may not share a run, found out on generated inputs; empty where they may."""
    return _why_not(run, terms, [sample_inputs(signature, seed) for seed in range(4)])


def must_not_change(run: Run, signature: Signature, join: Join, pad: Sequence[str]) -> None:
    """Raises `UsageError` where a request that was padded gets another answer than alone: the model does not mask."""
    names = tuple(spec.name for spec in signature.outputs)
    requests = [
        [drawn[spec.name] for spec in signature.inputs]
        for size in (5, 8)
        for drawn in [signature.sample(seed=size, sizes=dict.fromkeys(pad, size))]
    ]
    try:
        parts = join.apart(names, run(names, join.together(requests)), requests)
        alone = [run(names, inputs) for inputs in requests]
        same = all(
            _same(part, [whole])
            for found, own in zip(parts, alone, strict=True)
            for part, whole in zip(found, own, strict=True)
        )
    except (ValueError, SardonyxError):
        same = False
    if not same:
        raise UsageError(
            f"padding {', '.join(pad)} changes the model's answers",
            hint="pad only models that mask what is filled up with zeros",
        )


def choose(seconds: dict[int, float], *, quick: bool) -> Policy:
    """The policy that these seconds a run, by batch size, ask for."""
    costs = {size: spent / size for size, spent in seconds.items()}
    micro = {size: cost * 1e6 for size, cost in costs.items()}
    best = min(costs.values())
    if best >= _PAYS_BELOW * costs[1]:
        reason = f"a row costs {micro[1]:.0f} us alone and {best * 1e6:.0f} us in a batch: batching does not pay"
        return _one_by_one(seconds[1], reason, micro, quick=quick)
    enough = min(_NEARLY_BEST * best, _PAYS_BELOW * costs[1])
    size = next(size for size, cost in sorted(costs.items()) if cost <= enough)
    reason = f"a row costs {micro[1]:.0f} us alone and {micro[size]:.0f} us in a batch of {size}"
    inline = quick and seconds[size] < _INLINE_SECONDS
    patience = 0.0 if inline else min(_PATIENCE * seconds[1], _PATIENCE_SECONDS)
    return Policy(size, inline, reason, patience, micro, _ahead(seconds[size], inline=inline, quick=quick))


def _one_by_one(seconds: float, reason: str, micro: dict[int, float], *, quick: bool) -> Policy:
    """The policy of a model that takes one request at a time, in so many seconds."""
    inline = quick and seconds < _INLINE_SECONDS
    return Policy(1, inline, reason, 0.0, micro, _ahead(seconds, inline=inline, quick=quick))


def _ahead(seconds: float, *, inline: bool, quick: bool) -> int:
    return int(quick and not inline and seconds < _AHEAD_SECONDS)


def _why_not(run: Run, terms: Terms, rows: list[list[Array]]) -> str:
    """Why requests may not share a run; empty where they may."""
    if not terms.batchable:
        return "the model has no dynamic first dimension in all of its inputs and outputs"
    try:
        alone = [run(terms.output_names, row) for row in rows]
        together = run(terms.output_names, _stacked(rows))
    except Exception as error:  # noqa: BLE001  any failure to run a batch is an answer
        return f"a batch does not run: {error}"
    counts = [len(row[0]) for row in rows]
    for name, whole, *parts in zip(terms.output_names, together, *alone, strict=True):
        if not _same(whole, parts):
            return f"output {name} of a request changes with the requests beside it"
        if [len(part) for part in parts] != counts:  # boxes of a detector, say, which nobody could deal out again
            return f"output {name} has another number of rows than the inputs"
    return ""


def _same(whole: Array, parts: Sequence[Array]) -> bool:
    """Whether the rows answered together are those answered one by one. Kernels may add up in another order."""
    if any(part.ndim == 0 for part in parts) or any(part.shape[1:] != parts[0].shape[1:] for part in parts):
        return False
    expected = [np.concatenate(parts)]
    return judge(expected, [whole], for_rounding(expected)).verdict != "mismatch"


def sample_inputs(signature: Signature, seed: int, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Generated inputs in the order of the signature."""
    drawn = signature.sample(seed=seed, sizes=sizes)
    return [drawn[spec.name] for spec in signature.inputs]


def _stacked(rows: Sequence[Sequence[Array]]) -> list[Array]:
    if len(rows) == 1:  # a scalar cannot be put together with others, and need not be
        return list(rows[0])
    return [np.concatenate(arrays) for arrays in zip(*rows, strict=True)]


def _seconds(run: Run, terms: Terms, batches: dict[int, list[list[Array]]], clock: Clock) -> dict[int, float]:
    """The least seconds of a run of each size, taken in turns: whatever else the machine does only adds to them.

    Putting the rows together counts: for large inputs it costs more than batching saves.
    """
    found: dict[int, list[float]] = {size: [] for size in batches}
    for rows in batches.values():
        run(terms.output_names, _stacked(rows))
    end = time.perf_counter() + _BUDGET_SECONDS
    for turn in range(_ROUNDS):
        for size, rows in batches.items():
            for _ in range(max(1, _ROWS_A_ROUND // size)):
                started = clock()
                run(terms.output_names, _stacked(rows) if size > 1 else rows[0])
                found[size].append(clock() - started)
        if turn > 1 and time.perf_counter() > end:
            break
    return {size: min(spent) for size, spent in found.items()}
