"""Session settings that make a model faster on this machine, found by measuring.

Every setting is tried in a process of its own: onnxruntime lets the first session of a process decide about denormals for all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import machine, progress
from sardonyx.bench.interleave import Ratio, Turn, measure, speedup
from sardonyx.bench.process import Process
from sardonyx.compare.cases import Case
from sardonyx.deadline import OUT_OF_TIME, Deadline, OutOfTime
from sardonyx.model import Model
from sardonyx.optimize.gate import Gate
from sardonyx.optimize.timing import TOGETHER
from sardonyx.run.session import DEFAULTS, Settings
from sardonyx.signature import Array, Arrays
from sardonyx.sources import Failure, Outputs

# The settings together are measured once more by themselves, on fresh rounds.
SEARCH = 0.6
# When, as a share of the time: settings are compared, and measured one by one.
COMPARED, SEARCHED = 0.4, 0.7
DEFAULT, CHOSEN = "default", "chosen"
# Seconds that a process may take to open the model or to answer.
TIMEOUT = 600.0
logger = logging.getLogger(__name__)
_WORKER = str(Path(__file__).with_name("_session_worker"))


@dataclass(frozen=True)
class Trial:
    """One setting by itself, and what came of it."""

    setting: str
    value: Any
    speedup: Ratio | None
    reason: str = ""

    @property
    def settings(self) -> Settings:
        return replace(DEFAULTS, **{self.setting: self.value})

    @property
    def label(self) -> str:
        return f"{self.setting}={self.value}"

    def to_dict(self) -> dict[str, Any]:
        ratio = None if self.speedup is None else self.speedup.to_dict()
        return {"setting": self.setting, "value": self.value, "speedup": ratio, "reason": self.reason}


@dataclass(frozen=True)
class Tuned:
    """The settings that are kept, none if none is faster, what they gain, and everything tried."""

    settings: Settings
    speedup: Ratio | None
    trials: tuple[Trial, ...]


class Tried(Process):
    """A session with its settings, in a process of its own."""

    def __init__(self, model: Path, settings: Settings) -> None:
        source = {"path": str(model.resolve()), "settings": settings.tuned}
        super().__init__(_WORKER, source, threads=None, timeout=TIMEOUT)

    def __enter__(self) -> Tried:
        super().__enter__()
        return self

    def answers(self, cases: Sequence[Case]) -> list[Outputs | Failure]:
        """What it answers to the cases."""
        paths = [self.folder / f"{index}.npz" for index, _ in enumerate(cases)]
        for path, case in zip(paths, cases, strict=True):
            np.savez(path, **case.inputs)  # type: ignore[arg-type]
        return [_read(item) for item in self._ask("predict", inputs=list(map(str, paths)))["outputs"]]


def tune(model: Path, gate: Gate, *, seconds: float, limit: Deadline, seed: int) -> Tuned:
    """Tries every setting by itself, keeps those that are faster, and proves them together against the defaults.

    Measuring takes about `seconds`; what there is no time for before the limit is not tried.
    """
    trials = _compared(model, gate, limit.at(COMPARED))
    allowed = {trial.label: trial.settings for trial in trials if not trial.reason}
    ratios = _race(model, allowed, gate.example, SEARCH * seconds, limit.at(SEARCHED), seed)
    trials = [
        trial if trial.reason or trial.label in ratios else replace(trial, reason=OUT_OF_TIME)
        for trial in (replace(trial, speedup=ratios.get(trial.label)) for trial in trials)
    ]
    best = best_of(trials)
    if best == DEFAULTS:
        return Tuned(best, None, tuple(trials))
    gain = _race(model, {CHOSEN: best}, gate.example, (1 - SEARCH) * seconds, limit.share(0.6), seed + 1).get(CHOSEN)
    proven = gain is not None and gain.verdict == "faster" and not changes_numbers(model, gate, best, limit)
    return Tuned(best if proven else DEFAULTS, gain if proven else None, tuple(trials))


def _compared(model: Path, gate: Gate, limit: Deadline) -> list[Trial]:
    """Every setting, with the reason where it must not be used or there is no time to look at it."""
    choice, trials = choices(), []
    with progress.task("settings", total=len(choice)) as advance:
        for name, value in choice:
            trial = Trial(name, value, None)
            trials.append(replace(trial, reason=changes_numbers(model, gate, trial.settings, limit)))
            advance(text=f"settings: {name}")
    return trials


def choices() -> list[tuple[str, Any]]:
    """Every setting that differs from onnxruntime's defaults, and fits this machine."""
    cpus = machine.threads()
    counts = sorted({1, cpus // 2, cpus - 1} - {0, cpus})
    return [
        *(("threads", count) for count in counts),
        ("spinning", False),
        ("arena", False),
        ("prepacking", False),
        ("denormals_as_zero", True),
    ]


def changes_numbers(model: Path, gate: Gate, settings: Settings, limit: Deadline) -> str:
    """Why settings must not be used; empty if the answers stay within rounding."""
    try:
        with limit.enforced(), Tried(model, settings) as process:
            return gate.judge_answers(process.answers(gate.cases))[1]
    except OutOfTime:
        return OUT_OF_TIME


def best_of(trials: Sequence[Trial]) -> Settings:
    """The defaults with the fastest value of every setting that is faster."""
    chosen: dict[str, Trial] = {}
    for trial in trials:
        if trial.speedup is None or trial.speedup.verdict != "faster":
            continue
        rival = chosen.get(trial.setting)
        if rival is None or rival.speedup is None or trial.speedup.ratio > rival.speedup.ratio:
            chosen[trial.setting] = trial
    return replace(DEFAULTS, **{name: trial.value for name, trial in chosen.items()})


def _race(
    model: Path, variants: Mapping[str, Settings], inputs: Arrays, seconds: float, limit: Deadline, seed: int
) -> dict[str, Ratio]:
    """How many times faster each is than the defaults, of those that there is time for.

    A large model meets them one by one, to spare memory.
    """
    if len(variants) > 1 and Model.load(model).weight_bytes() * (len(variants) + 1) > TOGETHER:
        found: dict[str, Ratio] = {}
        for place, (label, one) in enumerate(variants.items()):
            share = limit.share(1 / (len(variants) - place))
            found |= _race(model, {label: one}, inputs, seconds / len(variants), share, seed)
        return found
    rounds = _turns(model, {DEFAULT: DEFAULTS, **variants}, inputs, seconds, limit, seed)
    return {label: speedup(rounds[DEFAULT], mine) for label, mine in rounds.items() if label != DEFAULT}


def _turns(
    model: Path, variants: Mapping[str, Settings], inputs: Arrays, seconds: float, limit: Deadline, seed: int
) -> dict[str, Array]:
    """The rounds of the variants that could be opened in half of the time; none where they are too slow to be compared."""
    turns: dict[str, Turn] = {}
    with ExitStack() as stack:
        try:
            with limit.share(0.5).enforced():
                for label, settings in variants.items():
                    turns[label] = stack.enter_context(Tried(model, settings)).prepare(inputs)
        except OutOfTime:
            logger.debug("%s of %s settings were opened in time", len(turns), len(variants))
        if len(turns) < 2 or limit.passed:
            return {}
        # The processes time themselves, so that it costs nothing to end them.
        found = limit.attempt(lambda: measure(turns, seconds=seconds, seed=seed, limit=limit), None)
        return found.rounds if found is not None and found.comparable else {}


def _read(answer: Mapping[str, Any]) -> Outputs | Failure:
    if "error" in answer:
        return Failure(answer["error"]["message"])
    with np.load(answer["path"], allow_pickle=False) as file:
        arrays = tuple(file[key] for key in sorted(file.files))
    return Outputs(tuple(answer["names"]), arrays)
