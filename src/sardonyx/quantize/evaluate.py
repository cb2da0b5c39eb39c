"""A model's metric on some data, beside that of the float model."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from sardonyx import deadline
from sardonyx.model import Model
from sardonyx.quantize.metric import Budget, Metric, Rows, spread, worst
from sardonyx.run.session import Session
from sardonyx.samples import Batch
from sardonyx.signature import Array, Arrays

# A product of this kind at the end gives scores of classes, where nothing else says so.
_SCORING = ("Softmax", "LogSoftmax", "Gemm", "MatMul", "Add", "ArgMax")
# An output this much smaller than another, squared, does not decide how far answers are from float's.
TINY = 1e-6


@dataclass(frozen=True)
class Score:
    """The metric of float (`before`) and of the candidate (`after`), and the loss with its interval as the budget counts it."""

    before: float
    after: float
    loss: float
    low: float
    high: float

    @property
    def doubt(self) -> float:
        """The standard error of the loss."""
        return (self.high - self.low) / (2 * 1.96)


@dataclass(frozen=True)
class Reference:
    """What the float model says on some batches, kept to be compared with."""

    batches: tuple[Batch, ...]
    outputs: tuple[Arrays, ...]

    @classmethod
    def of(cls, session: Session, batches: Iterable[Batch]) -> Reference:
        kept, outputs = list[Batch](), list[Arrays]()
        for batch in batches:
            deadline.check()
            kept.append(batch)
            outputs.append(session.run_fitted(batch.inputs))
        return cls(tuple(kept), tuple(outputs))

    def take(self, examples: int) -> Reference:
        """The first batches, as many as hold so many examples, or all."""
        held = itertools.accumulate(batch.examples for batch in self.batches)
        count = next((index for index, total in enumerate(held, 1) if total >= examples), len(self.batches))
        return Reference(self.batches[:count], self.outputs[:count])

    def answers(self, session: Session) -> list[Arrays]:
        """What another model says on the same batches."""
        return [session.run_fitted(batch.inputs) for batch in self.batches]

    def distance(self, found: Sequence[Arrays]) -> float:
        """How far such answers are from float's, relative to their size and squared; the worst output counts.

        It tells candidates apart on a few examples, where a metric that counts hits does not. Only outputs of floats are
        looked at; one of another shape is infinitely far.
        """
        errors, sizes = defaultdict[str, float](float), defaultdict[str, float](float)
        for real, other in zip(self.outputs, found, strict=True):
            for name in _floats(real):
                exact = real[name].astype(np.float64)
                same = exact.shape == other[name].shape
                errors[name] += float(((other[name] - exact) ** 2).sum()) if same else float("inf")
                sizes[name] += float((exact**2).sum())
        least = max([TINY * size for size in sizes.values()], default=0.0) or 1e-30
        ratios = [error / max(sizes[name], least) for name, error in errors.items()]
        return max(ratios, default=0.0) if np.isfinite(ratios).all() else float("inf")


@dataclass(frozen=True)
class Judge:
    """Scores candidates by one metric and one budget."""

    metric: Metric
    budget: Budget
    seed: int = 0

    def score(self, session: Session, reference: Reference, *, interval: bool = False) -> Score:
        """The metric of both; the loss with its interval where one is asked for."""
        return self.score_of(reference.answers(session), reference, interval=interval)

    def score_of(self, found: Sequence[Arrays], reference: Reference, *, interval: bool = False) -> Score:
        """The same, of what the candidate has answered."""
        before, after = self._all_rows(reference.outputs, reference), self._all_rows(found, reference)
        return self._score(before, after, interval)

    def _score(self, before: Rows, after: Rows, interval: bool) -> Score:
        first, second = self.metric.total(before), self.metric.total(after)
        loss = self.budget.share(self.metric.loss(first, second), first)
        loss = loss if np.isfinite(loss) else float("inf")
        low, high = spread(self.metric, before, after, self.budget, seed=self.seed) if interval else (loss, loss)
        return Score(first, second, loss, low, high)

    def within(self, score: Score) -> bool:
        return score.loss <= self.budget.amount + 1e-12

    def surely_within(self, score: Score) -> bool:
        """Within even if the loss is a standard error more: of five such, four are within on any other data."""
        return score.loss + score.doubt <= self.budget.amount + 1e-12

    def perhaps_within(self, score: Score) -> bool:
        """Within if the loss is a standard error less."""
        return score.loss - score.doubt <= self.budget.amount + 1e-12

    def _all_rows(self, found: Sequence[Arrays], reference: Reference) -> Rows:
        triples = zip(found, reference.outputs, reference.batches, strict=True)
        return np.concatenate([self._rows(*triple) for triple in triples])

    def _rows(self, found: Arrays, real: Arrays, batch: Batch) -> Rows:
        if self.metric.against == "float":
            return worst([self.metric.rows(_examples(found[name]), _examples(real[name])) for name in _compared(real)])
        assert batch.label is not None
        label = batch.label if batch.label.ndim else batch.label[None]
        return self.metric.rows(_examples(found[first_scores(real)]), label)


def first_scores(outputs: Arrays) -> str:
    """The output that labels are about: the first of floats, else the first."""
    return next((name for name, value in outputs.items() if value.dtype.kind == "f"), next(iter(outputs)))


def is_classifier(model: Model, outputs: Arrays) -> bool:
    """Whether the first output holds scores of classes, by its values or by the node that gives it."""
    name = first_scores(outputs)
    scores = outputs[name]
    if scores.ndim < 2 or scores.shape[-1] < 2 or scores.dtype.kind != "f":
        return False
    if (scores >= 0).all() and np.allclose(scores.sum(axis=-1), 1, atol=1e-3):
        return True
    value = next(value for value in model.ir.graph.outputs if value.name == name)
    return scores.ndim == 2 and _kind(value) in _SCORING


def _kind(value: ir.Value) -> str:
    node = value.producer()
    while node is not None and node.op_type in ("Identity", "Cast", "Squeeze", "Reshape", "Flatten") and node.inputs[0]:
        node = node.inputs[0].producer()
    return "" if node is None else node.op_type


def _compared(outputs: Arrays) -> list[str]:
    return _floats(outputs) or list(outputs)


def _floats(outputs: Arrays) -> list[str]:
    return [name for name, value in outputs.items() if getattr(value, "dtype", np.dtype(object)).kind == "f"]


def _examples(value: Array) -> Array:
    return value if value.ndim else value[None]
