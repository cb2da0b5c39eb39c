"""The training loop: epochs, validation, early stop, and checkpoints from which a run goes on as if it had never ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sardonyx import progress
from sardonyx.errors import UsageError
from sardonyx.run.session import DEFAULTS, Settings
from sardonyx.signature import Arrays
from sardonyx.training import schedules
from sardonyx.training.batches import Data
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.evaluation import Judge
from sardonyx.training.feeding import why_not_finite
from sardonyx.training.manifest import Manifest
from sardonyx.training.stepper import AccumulatedStep, FusedStep, Stepper

LAST, BEST = "last", "best"
# Whole numbers that a plan may hold, and the largest float32: a checkpoint may bring a plan of anybody's.
_MOST, _LARGEST_RATE = 1 << 31, 3.4e38
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Plan:
    """How to train. `patience`: epochs without a better validation loss before the run stops; None for never."""

    epochs: int = 1
    batch_size: int = 32
    lr: float = 1e-3
    schedule: str = "constant"
    warmup: int = 0
    accumulate: int = 1
    patience: int | None = None
    save_every: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} cannot be {getattr(self, name)}", hint="give 1 or more")
        for name in ("epochs", "batch_size", "warmup", "accumulate", "patience", "save_every", "seed"):
            if not 0 <= (getattr(self, name) or 0) < _MOST:
                raise UsageError(f"{name} cannot be {getattr(self, name)}", hint="give a number from 0 to two billion")
        if not 0 <= self.lr <= _LARGEST_RATE:
            raise UsageError(f"the learning rate cannot be {self.lr}", hint="give a number such as 0.001")
        schedules.rate(self.schedule, self.lr, 0, 1)


@dataclass
class Course:
    """Where a run stands, which a checkpoint carries: the next batch, and what has been seen."""

    epoch: int = 0
    batch: int = 0
    epoch_loss: float = 0.0
    epoch_steps: int = 0
    best: float = math.inf
    waited: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def to_dict(self, plan: Plan) -> dict[str, Any]:
        return {**asdict(self), "best": None if math.isinf(self.best) else self.best, "plan": asdict(plan)}

    @classmethod
    def of(cls, state: CheckpointState) -> Course:
        found = {name: value for name, value in state.progress.items() if name != "plan"}
        return cls(**{**found, "best": math.inf if found.get("best") is None else found["best"]})


@dataclass(frozen=True)
class Run:
    """A training run over a folder of artifacts."""

    folder: Path
    manifest: Manifest
    state: CheckpointState
    plan: Plan
    data: Data
    valid: Data | None = None
    settings: Settings = DEFAULTS

    def go(self) -> tuple[Course, bool]:
        """Trains to the last epoch, or to the early stop. Gives the course, and whether it stopped early."""
        course = Course.of(self.state)
        stepper = self._stepper()
        judge = None if self.valid is None else Judge(self.folder, self.manifest, self.state, settings=self.settings)
        steps = None if self.data.count is None else self._steps_of_epoch() * (self.plan.epochs - course.epoch)
        with progress.task("train", total=steps) as advance:
            while course.epoch < self.plan.epochs:
                self._epoch(course, stepper, judge, advance)
                if self.plan.patience is not None and course.waited > self.plan.patience:
                    return course, True
        return course, False

    def _stepper(self) -> Stepper:
        kind = FusedStep if self.plan.accumulate == 1 else AccumulatedStep
        return kind(self.folder, self.manifest, self.state, seed=self.plan.seed, settings=self.settings)

    def _epoch(self, course: Course, stepper: Stepper, judge: Judge | None, advance: Callable[..., None]) -> None:
        begun = time.perf_counter()
        for group in self._groups(course):
            where = f"epoch {course.epoch + 1}, batch {course.batch + 1}"
            loss = stepper.step(group, self._rate(course))
            if not math.isfinite(loss):
                raise why_not_finite(loss, group[0], where)
            course.batch += len(group)
            course.epoch_loss += loss
            course.epoch_steps += 1
            course.losses = _thinned([*course.losses, loss])
            advance(1, f"epoch {course.epoch + 1}/{self.plan.epochs}  loss {loss:.4f}  {sparkline(course.losses)}")
            if self.plan.save_every and course.epoch_steps % self.plan.save_every == 0:
                self._save(LAST, course)
        self._close_epoch(course, judge, time.perf_counter() - begun)

    def _groups(self, course: Course) -> Iterator[list[Arrays]]:
        batches = self.data.epoch((self.plan.seed, course.epoch), skip=course.batch)
        while group := list(islice(batches, self.plan.accumulate)):
            yield group

    def _close_epoch(self, course: Course, judge: Judge | None, seconds: float) -> None:
        row = {"epoch": course.epoch + 1, "loss": course.epoch_loss / max(1, course.epoch_steps)}
        if judge is not None and self.valid is not None:
            row |= {f"valid_{name}": value for name, value in judge.metrics(self.valid).items()}
        row |= {"learning_rate": self._rate(course), "seconds": round(seconds, 3)}
        course.history.append(row)
        course.epoch, course.batch, course.epoch_loss, course.epoch_steps = course.epoch + 1, 0, 0.0, 0
        score = row.get("valid_loss", row["loss"])
        improved = score < course.best
        course.waited = 0 if improved else course.waited + 1
        course.best = min(course.best, score)
        if improved:
            self._save(BEST, course)
        self._save(LAST, course)

    def _rate(self, course: Course) -> float:
        total = self._steps_of_epoch() * self.plan.epochs
        plan = self.plan
        done = course.epoch * self._steps_of_epoch() + course.epoch_steps
        return schedules.rate(plan.schedule, plan.lr, done, total, plan.warmup)

    def _steps_of_epoch(self) -> int:
        if self.data.count is None:
            if self.plan.schedule != "constant" or self.plan.warmup:
                raise UsageError(
                    "a schedule needs to know how long an epoch is, and the data is a stream",
                    hint="use --schedule constant, or give the data as arrays",
                )
            return 0
        return -(-self.data.count // self.plan.accumulate)

    def _save(self, name: str, course: Course) -> None:
        self.state.progress = course.to_dict(self.plan)
        self.state.save(self.folder / name)


def sparkline(values: list[float], width: int = 24) -> str:
    """The course of the loss in one line of text."""
    step = max(1, len(values) // width)
    shown = [sum(values[i : i + step]) / len(values[i : i + step]) for i in range(0, len(values), step)][-width:]
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(_BARS[int((value - low) / span * (len(_BARS) - 1))] for value in shown)


def _thinned(losses: list[float], limit: int = 2048) -> list[float]:
    """Every second value once there are too many: the curve stays, the checkpoint stays small."""
    return losses if len(losses) < limit else losses[::2]
