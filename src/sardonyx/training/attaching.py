"""Ways to join a loss to the predictions of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from sardonyx.build import Builder, Expr
from sardonyx.model import Model
from sardonyx.training import losses
from sardonyx.training.manifest import Label
from sardonyx.training.values import described

# Joins predictions to a loss: gives the loss and the labels that it takes.
Attach = Callable[[Builder, list[Expr]], tuple[Expr, list[Label]]]


def attach_named(name: str, options: Mapping[str, Any] | None = None, label: str | None = None) -> Attach:
    """Joins a loss of the table to the first prediction."""
    loss = losses.named(name)
    chosen = losses.options_of(loss, options or {})

    def attach(build: Builder, predictions: list[Expr]) -> tuple[Expr, list[Label]]:
        dtype, shape = loss.target(predictions[0])
        value = ir.val(build.names.fresh(label or ("labels" if loss.classes else "target")), dtype, shape)
        build.graph.inputs.append(value)
        classes = predictions[0].size(1) if loss.classes else None
        label_of = Label(**vars(described(value)), classes=classes, ignored=chosen.get("ignore_index"))
        return loss.function(predictions[0], build.expr(value), **chosen), [label_of]

    return attach


def attach_model(model: Model) -> Attach:
    """Joins a loss that is itself a model."""

    def attach(build: Builder, predictions: list[Expr]) -> tuple[Expr, list[Label]]:
        loss, added = losses.from_model(build, model, predictions)
        return loss, [Label(**vars(described(value))) for value in added]

    return attach


def attach_output() -> Attach:
    """Takes the first prediction for the loss: the model computes it itself."""
    return lambda build, predictions: (predictions[0], [])  # noqa: ARG005
