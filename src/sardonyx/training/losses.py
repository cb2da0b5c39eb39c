"""Losses as ONNX: each is a function from predictions and targets to one number, in standard operators.

The arithmetic is PyTorch's. A loss of one's own is any ONNX model with one scalar output: see `from_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.build import Builder, Dimension, Expr, op
from sardonyx.errors import InputError, UsageError
from sardonyx.gradient.shapes import cast, count_of, where
from sardonyx.model import Model

Number = Callable[..., Expr]
INT64 = ir.DataType.INT64


@dataclass(frozen=True)
class Loss:
    """A loss by name: the function, the options that it takes, and whether its targets are class numbers."""

    name: str
    function: Number
    defaults: Mapping[str, Any] = field(default_factory=dict)
    classes: bool = False

    def target(self, scores: Expr) -> tuple[ir.DataType, list[Dimension]]:
        """The type and shape of the targets that go with these predictions."""
        shape = list(scores.shape or ())
        if not self.classes:
            return scores.dtype, shape
        if len(shape) < 2:
            raise InputError(
                f"{self.name} needs scores of shape [batch, classes, ...], and '{scores.value.name}' has {tuple(shape)}",
                hint="choose another loss, or name the output that holds the scores",
            )
        return INT64, [shape[0], *shape[2:]]


def _reduced(values: Expr, reduction: str) -> Expr:
    if reduction == "sum":
        return op("ReduceSum", values, keepdims=0)
    return op("ReduceMean", values, keepdims=0)


def _cross_entropy(
    scores: Expr,
    labels: Expr,
    *,
    weight: Sequence[float] | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Expr:
    weights = None if weight is None else scores.build.constant(np.asarray(weight), scores.dtype)
    hard = op("SoftmaxCrossEntropyLoss", scores, labels, weights, reduction=reduction, ignore_index=ignore_index)
    if not label_smoothing:
        return hard
    soft = _uniform_entropy(scores, labels, weights, ignore_index, reduction)
    return (1 - label_smoothing) * hard + label_smoothing * soft


def _uniform_entropy(scores: Expr, labels: Expr, weights: Expr | None, ignore_index: int, reduction: str) -> Expr:
    """The cross-entropy with the uniform distribution, each class by its weight, over the weight of the labels."""
    logarithms = op("LogSoftmax", scores, axis=1)
    classes = scores.size(1)
    if classes is None:
        raise InputError("label smoothing needs to know the number of classes", hint="export with fixed classes")
    used = ~labels.equals(ignore_index)
    if weights is not None:
        column = op("Reshape", weights, [1, -1, *[1] * (scores.rank - 2)])
        logarithms = logarithms * column
    each = where(used, op("ReduceSum", logarithms, [1], keepdims=0) * (-1 / classes), 0)
    if reduction == "sum":
        return op("ReduceSum", each, keepdims=0)
    counted = cast(used, scores)
    if weights is not None:
        counted = counted * op("Gather", weights, where(used, labels, 0), axis=0)
    return op("ReduceSum", each, keepdims=0) / op("ReduceSum", counted, keepdims=0)


def _binary_cross_entropy(
    x: Expr, y: Expr, *, weight: Sequence[float] | None, pos_weight: Sequence[float] | None, reduction: str
) -> Expr:
    """log(1 + e^-x) in the form that no large x can overflow."""
    tail = op("Softplus", -op("Abs", x)) + op("Relu", -x)
    if pos_weight is not None:
        tail = (1 + (x.build.constant(np.asarray(pos_weight), x.dtype) - 1) * y) * tail
    each = (1 - y) * x + tail
    return _reduced(each if weight is None else each * x.build.constant(np.asarray(weight), x.dtype), reduction)


def _squared_error(x: Expr, y: Expr, *, reduction: str) -> Expr:
    away = x - y
    return _reduced(away * away, reduction)


def _absolute_error(x: Expr, y: Expr, *, reduction: str) -> Expr:
    return _reduced(op("Abs", x - y), reduction)


def _huber(x: Expr, y: Expr, *, delta: float, reduction: str) -> Expr:
    away = op("Abs", x - y)
    return _reduced(where(away < delta, away * away * 0.5, (away - 0.5 * delta) * delta), reduction)


def _divergence(x: Expr, y: Expr, *, log_target: bool, reduction: str) -> Expr:
    """The Kullback-Leibler divergence of log-probabilities `x` from probabilities `y`; `batchmean` is the definition's mean."""
    if log_target:
        each = op("Exp", y) * (y - x)
    else:
        positive = y > 0
        each = where(positive, y * (op("Log", where(positive, y, 1)) - x), 0)
    if reduction != "batchmean":
        return _reduced(each, reduction)
    return op("ReduceSum", each, keepdims=0) / count_of(x, [0], x)


_MEAN = {"reduction": "mean"}

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss(
            "cross_entropy",
            _cross_entropy,
            {"weight": None, "ignore_index": -100, "label_smoothing": 0.0, **_MEAN},
            classes=True,
        ),
        Loss("bce_with_logits", _binary_cross_entropy, {"weight": None, "pos_weight": None, **_MEAN}),
        Loss("mse", _squared_error, _MEAN),
        Loss("l1", _absolute_error, _MEAN),
        Loss("huber", _huber, {"delta": 1.0, **_MEAN}),
        Loss("kl", _divergence, {"log_target": False, "reduction": "batchmean"}),
    )
}


def named(name: str) -> Loss:
    """The loss of that name."""
    if name not in LOSSES:
        raise UsageError(f"there is no loss '{name}'", hint=f"choose one of {', '.join(LOSSES)}, or an ONNX model")
    return LOSSES[name]


def options_of(loss: Loss, given: Mapping[str, Any]) -> dict[str, Any]:
    """The loss's options with its defaults filled in."""
    unknown = sorted(set(given) - set(loss.defaults))
    if unknown:
        raise UsageError(f"{loss.name} has no option '{unknown[0]}'", hint=f"its options: {', '.join(loss.defaults)}")
    reduction = given.get("reduction", loss.defaults["reduction"])
    allowed = ("mean", "sum", "batchmean") if loss.name == "kl" else ("mean", "sum")
    if reduction not in allowed:
        raise UsageError(
            f"a loss is one number, and reduction='{reduction}' gives none", hint=f"choose {' or '.join(allowed)}"
        )
    return {**loss.defaults, **given}


def from_model(build: Builder, loss: Model, predictions: Sequence[Expr]) -> tuple[Expr, list[ir.Value]]:
    """Copies a loss given as a model into the graph: the loss, and the inputs that it adds.

    An input of the loss named like a prediction takes it; if none is, the first inputs take the predictions in order.
    """
    inner = loss.ir.graph.clone()
    if len(inner.outputs) != 1:
        raise InputError(f"the loss model has {len(inner.outputs)} outputs", hint="a loss has one output, a scalar")
    given = {expr.value.name: expr.value for expr in predictions}
    names = [value.name for value in inner.inputs]
    if not set(given) & set(names):
        given = {name: expr.value for name, expr in zip(names, predictions, strict=False)}
    added = []
    for value in list(inner.inputs):
        if value.name in given:
            ir.convenience.replace_all_uses_with(value, given[value.name])
        else:
            value.name = build.names.fresh(value.name or "target")
            added.append(value)
    inner.inputs.clear()
    output = inner.outputs[0]
    inner.outputs.clear()
    for name in list(inner.initializers):
        value = inner.initializers.pop(name)
        value.name = build.names.fresh(name)
        build.root.register_initializer(value)
    for node in list(inner):
        inner.remove(node)
        build.append(node)
    for value in added:
        build.graph.inputs.append(value)
    return build.expr(output), added
