"""The measurement: opens every variant, gives all the same inputs, lets them take turns, and reports what was found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import machine, progress, registry
from sardonyx.bench.accuracy import Scores, score_variants
from sardonyx.bench.inputs import examples, fitted, make_inputs, signature_of
from sardonyx.bench.interleave import GRACE, Timings, Turn, least_seconds, measure, speedup
from sardonyx.bench.latency import latency
from sardonyx.bench.lineup import Entry, line_up
from sardonyx.bench.profile import Profile, profile_model
from sardonyx.bench.sharing import share
from sardonyx.bench.tables import report_of
from sardonyx.bench.variants._variant import Cold, How, Variant
from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.errors import RuntimeRefused, SardonyxError, SourceFailed, UsageError
from sardonyx.report import Report
from sardonyx.signature import Array, Arrays, Signature

# What fails in one variant is that variant's reason, and the others are measured; a wrong call or file stops all.
_OWN_FAILURES = (SourceFailed, RuntimeRefused)


@dataclass(frozen=True)
class Plan:
    """What to measure with."""

    seconds: float
    batches: Sequence[int | None]
    data: Any = None
    specs: Sequence[str] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    cold: bool = True
    profile: bool = False


@dataclass
class Findings:
    """What the measurement gathers. `late` says what was not compared, as calls are too slow; `needed` are seconds that do."""

    variants: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    needed: float = 0.0
    timings: dict[int, Timings] = field(default_factory=dict)
    seconds: float = 0.0
    profiles: list[Profile] = field(default_factory=list)
    scores: Scores = field(default_factory=Scores)


def bench_variants(sources: Sequence[Any], how: How, plan: Plan, *, plot: str | Path | None = None) -> Report:
    """Measures the variants and gives the report; draws it to `plot` if that is named."""
    if not plan.seconds > 0:
        raise UsageError(f"cannot measure in {plan.seconds:g} seconds", hint="give --seconds more than 0")
    if plot is not None:
        registry.need("report", for_what="a plot")
    entries = line_up(sources)
    share(entries, how)
    found = Findings()
    with ExitStack() as stack:
        opened = _open(entries, how, stack, found)
        if plan.profile and all(variant.onnx is None for variant in opened.values()):
            raise UsageError("there is no onnxruntime variant to profile", hint="--profile is for ONNX models")
        signature = signature_of(opened, plan.specs)
        for batch in plan.batches or [None]:
            _measure_batch(opened, signature, batch, how, plan, found)
        measured = {row["name"]: opened[row["name"]] for row in found.variants}
        found.scores = score_variants(measured, signature, plan.data, found.variants, plan.seconds)
    first = entries[0].name
    report = report_of(found, first=first, threads=how.threads or machine.threads(), plan_seconds=plan.seconds)
    if plot is not None:
        from sardonyx.bench.plot import draw

        draw(found.timings, report["ratios"], Path(plot))
    return report


def _open(entries: Sequence[Entry], how: How, stack: ExitStack, found: Findings) -> dict[str, Variant]:
    opened: dict[str, Variant] = {}
    with progress.task("opening", total=len(entries)) as advance:
        for entry in entries:
            advance(0, f"opening {entry.name}")
            try:
                opened[entry.name] = stack.enter_context(entry.opened(how))
            except _OWN_FAILURES as error:
                _note(entry.name, error, found, first=entries[0].name)
            advance(1)
    return opened


def _note(name: str, error: SardonyxError, found: Findings, *, first: str) -> None:
    """Keeps a variant's failure as its reason. Without the first variant there is nothing to compare with."""
    if name == first:
        raise error
    found.failures[name] = f"{error.message}; {error.hint}" if error.hint else error.message


def _measure_batch(
    opened: Mapping[str, Variant], signature: Signature, batch: int | None, how: How, plan: Plan, found: Findings
) -> None:
    inputs = make_inputs(signature, batch=batch, data=plan.data, sizes=plan.sizes, seed=plan.seed)
    count, first = examples(inputs), next(iter(opened))
    turns: dict[str, Turn] = {}
    colds: dict[str, Cold] = {}
    slow: dict[str, Array] = {}
    for name, variant in opened.items():
        own = fitted(name, variant.takes, inputs)
        try:
            turn, seconds = _ready(name, variant, own, plan, how)
            colds[name] = _cold(name, variant, own) if plan.cold else Cold()
        except _OWN_FAILURES as error:
            _note(name, error, found, first=first)
            continue
        if _too_slow(seconds, plan):
            slow[name] = np.array([seconds])
        else:
            turns[name] = turn
    timings = found.timings[count] = _take_turns(turns, slow, plan, found)
    found.variants += [
        {"name": name, "batch": count, **latency(timings.calls[name], count), "memory": cold.memory,
         "size": opened[name].size, "cold_start": cold.seconds}
        for name, cold in colds.items()
    ]  # fmt: skip
    if timings.comparable and first in turns:
        found.ratios += [_ratio(first, name, count, timings) for name in turns if name != first]
    if plan.profile:
        found.profiles += [_profile(name, opened[name], inputs, how, count) for name in colds if opened[name].onnx]


def _take_turns(turns: Mapping[str, Turn], slow: Mapping[str, Array], plan: Plan, found: Findings) -> Timings:
    """The timings of all variants. Of those that are too slow the one call, which is compared with nothing."""
    for name, (seconds,) in slow.items():
        found.late.append(f"a call of {name} takes {seconds:.3g} s, so it was called once and is not compared")
        found.needed = max(found.needed, least_seconds(seconds))
    if not turns:
        return Timings({}, dict(slow))
    started = time.perf_counter()
    timings = measure(turns, seconds=plan.seconds * len(turns), seed=plan.seed)
    found.seconds += time.perf_counter() - started
    if not timings.comparable:
        found.late.append(f"a round of all variants takes {timings.round_seconds:.3g} s, so they are not compared")
        found.needed = max(found.needed, least_seconds(timings.round_seconds) / len(turns))
    return replace(timings, calls={**timings.calls, **slow})


def _too_slow(seconds: float, plan: Plan) -> bool:
    """Whether one call takes the time that there is for all of them."""
    return seconds > max(plan.seconds, GRACE)


def _ready(name: str, variant: Variant, inputs: Arrays, plan: Plan, how: How) -> tuple[Turn, float]:
    """The variant ready to be called, and the seconds of a call. A framework may compile in its first: a slow one is repeated."""
    with progress.task(f"preparing {name}"):
        turn = variant.prepare(inputs)
        try:
            with Deadline(how.timeout).enforced():
                seconds = float(turn(1)[0])
                if _too_slow(seconds, plan) and variant.onnx is None:
                    seconds = float(turn(1)[0])
                return turn, seconds
        except OutOfTime as late:
            raise RuntimeRefused(
                f"{name} gave no answer within {how.timeout:g} s", hint="give it more time with --timeout"
            ) from late


def _cold(name: str, variant: Variant, inputs: Arrays) -> Cold:
    with progress.task(f"starting {name} afresh"):
        return variant.cold(inputs)


def _ratio(of: str, to: str, batch: int, timings: Timings) -> dict[str, Any]:
    """The ratio of undisturbed calls of the same rounds, and beside it that of the medians of all calls."""
    ratio = speedup(timings.rounds[of], timings.rounds[to])
    medians = float(np.median(timings.calls[of]) / np.median(timings.calls[to]))
    return {"of": of, "to": to, "batch": batch, **ratio.to_dict(), "p50_ratio": medians}


def _profile(name: str, variant: Variant, inputs: Arrays, how: How, batch: int) -> Profile:
    assert variant.onnx is not None, "asked only of ONNX variants"
    return profile_model(name, variant.onnx, fitted(name, variant.takes, inputs), how, batch)
