"""What is in a picture: the classes that a classifier scores highest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.errors import BadData
from sardonyx.report import Table
from sardonyx.run import labels as names
from sardonyx.signature import Array

_BAR = 24
_SUM = 1e-3  # how far the sum of probabilities may be from one: half precision rounds a thousand of them


@dataclass(frozen=True)
class Scores:
    """The output that holds the scores, and what its values are: probabilities, log-probabilities, scores or logits."""

    output: str
    kind: str


def scores_of(outputs: Mapping[str, Any], labels: int | None, last_operators: Mapping[str, str]) -> Scores:
    """The output with one score for each class. With several, the one that has as many as there are labels."""
    lists = {name: array.size for name, array in outputs.items() if _is_list(array)}
    if len(lists) > 1 and labels is not None:
        lists = {name: size for name, size in lists.items() if size == labels} or lists
    if len(lists) != 1:
        told = ", ".join(f"{name} {list(np.shape(array))}" for name, array in outputs.items())
        what = "several outputs could be scores" if lists else "no output is one score for each class"
        raise BadData(f"{what}: {told}", hint="give labels for the classes, or run without --task to see the outputs")
    (name,) = lists
    return Scores(name, _kind(outputs[name], last_operators.get(name, "")))


def probabilities(values: Array, kind: str) -> Array:
    """The scores between 0 and 1, in float32: softmax of logits, exp of log-probabilities, others as they are."""
    flat = values.reshape(-1).astype(np.float32)
    if kind == "log-probabilities":
        return np.exp(flat)
    if kind != "logits":
        return flat
    raised = np.exp(flat - flat.max())
    result: Array = raised / raised.sum()
    return result


def top(scores: Array, count: int) -> Array:
    """The best classes by index; of equal scores the lower class."""
    return np.argsort(-scores, kind="stable")[:count]


def answer(classes: Sequence[int], scores: Sequence[float], labels: Sequence[str] | None) -> list[dict[str, Any]]:
    """The JSON field `classes`."""
    return [
        {"label": names.named(labels, int(index)), "score": float(score), "index": int(index)}
        for index, score in zip(classes, scores, strict=True)
    ]


def table(found: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each class with a bar as long as its score."""
    rows = tuple((item["label"], f"{item['score'] * 100:.1f} %", _bar(item["score"])) for item in found)
    return Table("classes", ("class", "score", ""), rows)


def _bar(score: float) -> str:
    return "█" * round(min(max(score, 0), 1) * _BAR) or "▏"


def _is_list(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return False
    return array.size > 1 and array.size == max(array.shape)


def _kind(values: Array, last_operator: str) -> str:
    flat = values.reshape(-1).astype(np.float64)
    if not np.isfinite(flat).all():
        raise BadData(
            "the scores are not finite numbers", hint="look at the outputs without --task, and at --normalize"
        )
    if flat.min() >= 0 and abs(flat.sum() - 1) <= _SUM:
        return "probabilities"
    if flat.max() <= 0 and abs(np.exp(flat).sum() - 1) <= _SUM:
        return "log-probabilities"
    # Each class on its own: any number of them can be there.
    return "scores" if last_operator == "Sigmoid" else "logits"
