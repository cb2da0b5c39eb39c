"""Losses over classes: the gradient by the formula that cancels the softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import cast, count_of, reshape, size_of, where


def _one_hot(labels: Expr, scores: Expr) -> Expr:
    """Whether a score belongs to the label, in the shape of the scores; never for a label that no class has."""
    classes = scores.size(1)
    if classes is not None:
        numbers = scores.build.constant(np.arange(classes), labels.dtype)
    else:
        count = op("Squeeze", size_of(scores, 1))
        numbers = cast(op("Range", scores.build.constant(0), count, scores.build.constant(1)), labels)
    column = reshape(numbers, [-1, *[1] * (scores.rank - 2)]) if scores.rank > 2 else numbers
    return op("Unsqueeze", labels, [1]).equals(column)


def _coefficient(
    g: Expr, labels: Expr, weights: Expr | None, scores: Expr, reduction: str, ignore_index: int | None
) -> Expr:
    """What each sample's loss counts: its weight, over the sum of all weights for a mean, times the gradient, to broadcast
    over the scores."""
    used = None if ignore_index is None else ~labels.equals(ignore_index)
    if weights is not None:
        safe = labels if used is None else where(used, labels, 0)
        weight = op("Gather", weights, safe, axis=0)
        weight = weight if used is None else where(used, weight, 0)
    elif used is not None:
        weight = cast(used, scores)
    else:
        weight = None
    if reduction == "none":
        return op("Unsqueeze", g if weight is None else g * weight, [1])
    if weight is None:
        return g / count_of(labels, None, g) if reduction == "mean" else g
    share = weight * (g / op("ReduceSum", weight, keepdims=0) if reduction == "mean" else g)
    return op("Unsqueeze", share, [1])


def _cross_entropy(
    g: tuple[Expr | None, ...], y: tuple[Expr, ...], x: Expr, labels: Expr, weights: Expr | None,
    *, reduction: str, ignore_index: int | None, at: Any,
) -> Expr | None:  # fmt: skip
    logarithms = at.output(1)
    probabilities = op("Exp", logarithms)
    total = None
    if g[0] is not None:
        factor = _coefficient(g[0], labels, weights, x, reduction, ignore_index)
        total = factor * (probabilities - cast(_one_hot(labels, x), x))
    if g[1] is not None:
        direct = g[1] - probabilities * op("ReduceSum", g[1], [1], keepdims=1)
        total = direct if total is None else total + direct
    return total


def _likelihood(
    g: Expr, y: Expr, x: Expr, labels: Expr, weights: Expr | None, *, reduction: str, ignore_index: int | None
) -> Expr:
    factor = _coefficient(g, labels, weights, x, reduction, ignore_index)
    return where(_one_hot(labels, x), -factor, 0)


RULES: dict[str, Any] = {
    "SoftmaxCrossEntropyLoss": (_cross_entropy, None, None),
    "NegativeLogLikelihoodLoss": (_likelihood, None, None),
}
