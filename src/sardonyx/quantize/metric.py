"""How good a model is at its task: numbers per example, so that the uncertainty can be drawn from the examples themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx import callables, deadline
from sardonyx.decision import decided
from sardonyx.errors import BadData, SourceFailed, UsageError
from sardonyx.signature import Array

# Of so many in n examples none is seen, one time in twenty: the rule of three.
UNSEEN = 3
# How often an interval is drawn at least, and the share of the time left after which it is not drawn again.
DRAWS_AT_LEAST, DRAWING = 40, 0.05
# Statistics of one example are a row; `total` makes one number of many rows.
Rows = Array


@dataclass(frozen=True)
class Metric:
    """A name, the statistics of each example, and the one number over all of them."""

    name: str
    rows: Callable[[Array, Array], Rows]
    total: Callable[[Rows], float]
    higher_is_better: bool = True
    against: str = "labels"
    # An example is right or wrong, and nothing between.
    counts: bool = False

    def loss(self, before: float, after: float) -> float:
        """How much worse `after` is, in the metric's own unit; negative where it is better."""
        return before - after if self.higher_is_better else after - before


@dataclass(frozen=True)
class Budget:
    """How much may be lost: '1%' of the float model's metric, or '0.01' in the metric's own unit."""

    amount: float
    relative: bool

    @classmethod
    def parse(cls, text: str | float) -> Budget:
        words = str(text).strip()
        try:
            amount = float(words.removesuffix("%"))
        except ValueError:
            amount = float("nan")
        if not 0 <= amount < float("inf"):
            raise UsageError(
                f"'{text}' is not a budget", hint="write it as 1% of the metric, or as 0.01 in its own unit"
            )
        return cls(amount / 100, True) if words.endswith("%") else cls(amount, False)

    def share(self, loss: float, before: float) -> float:
        """The loss as the budget counts it."""
        return loss / abs(before) if self.relative and before else loss

    def __str__(self) -> str:
        return f"{self.amount:.3g}" if not self.relative else f"{self.amount * 100:g}%"


def chosen(name: str, *, labelled: bool, classifier: bool, integer_labels: bool, label_hint: str = "") -> Metric:
    """The metric of that name. `auto` is the task's own where there are labels, and agreement with float where not.

    `label_hint` says how to give labels where they are needed.
    """
    if name == "auto":
        name = _automatic(labelled, classifier, integer_labels)
    if name in UNLABELLED and (not labelled or name == "agreement"):
        return UNLABELLED[name]
    if name in LABELLED or callables.is_reference(name):
        if not labelled:
            raise BadData(
                f"the metric '{name}' needs labels, and the data has none",
                hint=f"{label_hint or 'give labels'}; or use --metric agreement or cosine, which compare with float",
            )
        return LABELLED[name] if name in LABELLED else _own(name)
    known = ", ".join(dict.fromkeys(["auto", *LABELLED, *UNLABELLED]))
    raise UsageError(f"there is no metric '{name}'", hint=f"use {known}, or module:callable")


def _automatic(labelled: bool, classifier: bool, integer_labels: bool) -> str:
    if not labelled:
        return "agreement" if classifier else "cosine"
    return "accuracy" if integer_labels else "rmse"


def _accuracy(outputs: Array, truth: Array) -> Rows:
    guesses = decided(outputs)
    if guesses.shape != truth.shape:
        raise BadData(
            f"the labels have shape {list(truth.shape)} and the model decides {list(guesses.shape)}",
            hint="give one label for each decision, or another --metric",
        )
    return (guesses == truth).reshape(len(truth), -1).mean(axis=1, keepdims=True)


def _top5(outputs: Array, truth: Array) -> Rows:
    if outputs.ndim != 2 or outputs.shape[1] < 5 or truth.ndim != 1:
        raise BadData("top5 needs scores of at least 5 classes and one label each", hint="use --metric accuracy")
    best = np.argpartition(outputs, -5, axis=1)[:, -5:]
    return (best == truth[:, None]).any(axis=1, keepdims=True).astype(float)


def _pairs(outputs: Array, truth: Array) -> Rows:
    guesses = decided(outputs)
    if guesses.shape != truth.shape or truth.ndim != 1:
        raise BadData("f1 needs one label for each example", hint="use another --metric, or module:callable")
    return np.stack([guesses, truth], axis=1)


def _f1(rows: Rows) -> float:
    """The mean over classes of 2 hits / (guessed + true): macro F1."""
    guesses, truth = rows[:, 0], rows[:, 1]
    scores = [
        2 * ((guesses == label) & (truth == label)).sum() / ((guesses == label).sum() + (truth == label).sum())
        for label in np.unique(rows)
    ]
    return float(np.mean(scores))


def _differences(outputs: Array, truth: Array) -> Array:
    if outputs.size != truth.size or not len(outputs):
        raise BadData(
            f"the labels have shape {list(truth.shape)} and the output {list(outputs.shape)}",
            hint="give labels of the output's shape, or another --metric",
        )
    return (outputs.astype(np.float64).reshape(len(outputs), -1)) - truth.astype(np.float64).reshape(len(outputs), -1)


def _cosine(outputs: Array, truth: Array) -> Rows:
    a, b = (item.astype(np.float64).reshape(len(item), -1) for item in (outputs, truth))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    same = (a == b).all(axis=1)
    return np.where(same, 1.0, (a * b).sum(axis=1) / np.where(lengths > 0, lengths, 1))[:, None]


def _agreement(outputs: Array, truth: Array) -> Rows:
    return (decided(outputs) == decided(truth)).reshape(len(truth), -1).mean(axis=1, keepdims=True)


def _mean(rows: Rows) -> float:
    return float(rows.mean())


def _root(rows: Rows) -> float:
    return float(np.sqrt(rows.mean()))


def _own(name: str) -> Metric:
    """The user's own `function(outputs, labels) -> number`, higher being better."""
    function = callables.load(name)

    def rows(outputs: Array, truth: Array) -> Rows:
        pairs = np.empty((len(outputs), 2), object)
        for index in range(len(outputs)):
            pairs[index, 0], pairs[index, 1] = outputs[index], truth[index]
        return pairs

    def total(pairs: Rows) -> float:
        with callables.raised_by(name):
            value: Any = function(np.stack(list(pairs[:, 0])), np.stack(list(pairs[:, 1])))
        if not np.isscalar(value) and np.ndim(value) != 0:
            raise SourceFailed(f"{name} gives no number but a {type(value).__name__}", hint="return one number")
        return float(value)

    return Metric(name, rows, total)


LABELLED: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _accuracy, _mean, counts=True),
    "top5": Metric("top5", _top5, _mean, counts=True),
    "f1": Metric("f1", _pairs, _f1),
    "mae": Metric("mae", lambda y, t: np.abs(_differences(y, t)).mean(axis=1, keepdims=True), _mean, False),
    "rmse": Metric("rmse", lambda y, t: (_differences(y, t) ** 2).mean(axis=1, keepdims=True), _root, False),
    "cosine": Metric("cosine", _cosine, _mean),
}
UNLABELLED: dict[str, Metric] = {
    "agreement": Metric("agreement", _agreement, _mean, against="float", counts=True),
    "cosine": Metric("cosine", _cosine, _mean, against="float"),
}


def spread(
    metric: Metric, before: Rows, after: Rows, budget: Budget, *, seed: int, draws: int = 500
) -> tuple[float, float]:
    """The 95 % interval of the loss, as the budget counts it: a bootstrap that draws the same examples for both models.

    Where nothing was lost on n examples, one in n / 3 may still be: drawing from equal examples would say that none can.
    A metric that takes long is drawn less often, as a share of the time that is left allows.
    """
    random, limit = np.random.default_rng(seed), deadline.current()
    end = None if limit is None else limit.share(DRAWING)
    losses = list[float]()
    for draw in range(draws):
        deadline.check()
        if end is not None and end.passed and draw >= DRAWS_AT_LEAST:
            break
        picked = random.integers(0, len(before), len(before))
        first, second = metric.total(before[picked]), metric.total(after[picked])
        losses.append(budget.share(metric.loss(first, second), first))
    low, high = np.quantile(losses, [0.025, 0.975])
    if metric.counts and not (after < before).any():
        high = max(high, budget.share(UNSEEN / len(before), metric.total(before)))
    return float(low), float(high)


def worst(rows: Sequence[Rows]) -> Rows:
    """Of several outputs the one that suffers most, example by example."""
    return np.min(np.stack(rows), axis=0)
