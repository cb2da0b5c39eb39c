"""How right each variant is, where the data has labels: accuracy for classes, root mean square error for numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sardonyx import progress
from sardonyx.bench.inputs import fitted
from sardonyx.bench.variants._variant import Variant
from sardonyx.decision import decided
from sardonyx.errors import RuntimeRefused, SourceFailed
from sardonyx.samples import Batch, Samples
from sardonyx.signature import Array, Signature

# Beyond this the third digit no longer changes.
EXAMPLES_AT_MOST = 4096


@dataclass
class Scores:
    """The metric of every variant on so many examples, and why one has none."""

    metric: str = ""
    examples: int = 0
    values: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def score_variants(
    opened: Mapping[str, Variant], signature: Signature, data: Any, rows: Sequence[Mapping[str, Any]], seconds: float
) -> Scores:
    """The scores on the first examples: as many as the slowest variant answers in `seconds`, by the calls in `rows`."""
    slowest = max((row["p50"] / max(1, row["batch"]) for row in rows), default=0.0)
    most = min(EXAMPLES_AT_MOST, seconds / max(slowest, 1e-9))
    found, totals = Scores(), dict.fromkeys(opened, 0.0)
    if data is None:
        return found
    with progress.task("judging the answers"):
        for batch in Samples.open(data, signature):
            if batch.label is None:
                return Scores()
            found.metric = found.metric or ("rmse" if batch.label.dtype.kind == "f" else "accuracy")
            _add(found, totals, opened, batch)
            found.examples += len(np.atleast_1d(batch.label))
            if found.examples >= most:
                break
    found.values = {name: _mean(found.metric, total / found.examples) for name, total in totals.items()}
    return found


def _mean(metric: str, mean: float) -> float:
    return float(np.sqrt(mean)) if metric == "rmse" else mean


def _add(found: Scores, totals: dict[str, float], opened: Mapping[str, Variant], batch: Batch) -> None:
    """Adds what every variant got right in the batch, or how far it was off, squared. One that fails is out."""
    assert batch.label is not None, "asked only of batches with labels"
    for name in list(totals):
        try:
            answers = opened[name].answers(fitted(name, opened[name].takes, dict(batch.inputs)))
            totals[name] += float(_points(answers, np.atleast_1d(batch.label)).sum())
        except (SourceFailed, RuntimeRefused, ValueError) as error:
            del totals[name]
            found.reasons[name] = getattr(error, "message", str(error))


def _points(answers: Sequence[Any], label: Array) -> Array:
    """1 for each example whose answer is its label, or the squared error where labels are floats."""
    arrays = [np.asarray(answer) for answer in answers if isinstance(answer, np.ndarray)]
    if label.dtype.kind == "f":
        same = next((array for array in arrays if array.dtype.kind == "f" and array.size == label.size), None)
        if same is not None:
            errors = same.astype(np.float64).reshape(label.shape) - label
            return np.asarray((errors**2).reshape(len(label), -1).mean(axis=1))
        raise ValueError(f"no output has the shape of the labels, {list(label.shape)}")
    # An output that names classes comes before one of scores: the classes of an estimator need not be 0, 1, ….
    found = (_guesses(array, label) for array in sorted(arrays, key=lambda array: array.dtype.kind == "f"))
    guesses = next((each for each in found if each is not None), None)
    if guesses is None:
        raise ValueError(f"no output decides for labels of {label.dtype} and shape {list(label.shape)}")
    return np.asarray((guesses == label).reshape(len(label), -1).mean(axis=1))


def _guesses(array: Array, label: Array) -> Array | None:
    """The classes that an output names or gives scores for, in the shape of the labels; None where it does neither."""
    text = label.dtype.kind in "OUS"
    if text or array.dtype.kind in "OUS":
        same = text and array.dtype.kind in "OUS" and array.size == label.size
        return array.astype(str).reshape(label.shape) if same else None
    scores = array.ndim == label.ndim + 1 and array.shape[-1] > 1
    classes = array.argmax(axis=-1) if scores else decided(array)
    return classes.reshape(label.shape) if classes.size == label.size else None
