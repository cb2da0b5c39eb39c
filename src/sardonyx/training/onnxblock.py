"""Losses and blocks of one's own, with the names of onnxruntime-training's `onnxblock`.

    class Penalised(onnxblock.Block):
        def __init__(self):
            super().__init__()
            self.loss = onnxblock.loss.CrossEntropyLoss()

        def build(self, scores):
            return self.loss(scores) + 0.01 * onnxblock.op("ReduceSumSquare", scores, keepdims=0)

    generate_artifacts(model, loss=Penalised(), optimizer=OptimType.AdamW)

A block is called with values of the graph and gives values. `+ - * /` and `op(...)` write the nodes. `self.input(...)` adds an
input of the training graph, such as a target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir

from sardonyx.build import Builder, Dimension, Expr, op, ops
from sardonyx.errors import UsageError
from sardonyx.training.graphs import Rule, attach_named
from sardonyx.training.manifest import Label

__all__ = ["Block", "loss", "op", "ops", "optim"]


class Block:
    """A piece of a training graph: override `build`, and call the block with values."""

    def __init__(self) -> None:
        self._labels: list[Label] = []
        self._build: Builder | None = None

    def build(self, *values: Expr) -> Expr:
        raise NotImplementedError(f"{type(self).__name__} has no build()")

    def __call__(self, *values: Expr) -> Expr:
        return self.build(*values)

    def input(self, name: str, dtype: str, shape: Sequence[Dimension]) -> Expr:
        """A new input of the training graph."""
        if self._build is None:
            raise UsageError("an input can only be added while the block is built", hint="call input() inside build()")
        value = ir.val(self._build.names.fresh(name), ir.DataType[dtype.upper()], list(shape))
        self._build.graph.inputs.append(value)
        assert value.dtype is not None
        self._labels.append(Label(value.name or name, str(value.dtype.numpy()), tuple(shape)))
        return self._build.expr(value)

    def attach(self, build: Builder, predictions: list[Expr]) -> tuple[Expr, list[Label]]:
        """What `generate_artifacts` calls: the loss, and the targets that it takes."""
        labels: list[Label] = []
        for block in _blocks(self):
            block._build, block._labels = build, labels
        return self(*predictions), labels


class _Named(Block):
    """A loss of the table, as a block."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._name, self._options = name, options

    def build(self, *values: Expr) -> Expr:
        if self._build is None:
            raise UsageError(f"the loss {self._name} was called outside a graph", hint="call it inside build()")
        found, labels = attach_named(self._name, self._options)(self._build, list(values))
        self._labels.extend(labels)
        return found


class _NamedOptimizer:
    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.rule = Rule(name, options)


def _blocks(block: Block) -> list[Block]:
    """The block and every block that it holds."""
    inner = [each for value in vars(block).values() if isinstance(value, Block) for each in _blocks(value)]
    return [block, *inner]


loss = SimpleNamespace(
    MSELoss=lambda **options: _Named("mse", options),
    CrossEntropyLoss=lambda **options: _Named("cross_entropy", options),
    BCEWithLogitsLoss=lambda **options: _Named("bce_with_logits", options),
    L1Loss=lambda **options: _Named("l1", options),
)

optim = SimpleNamespace(
    AdamW=lambda **options: _NamedOptimizer("adamw_onnxruntime", options),
    SGD=lambda **options: _NamedOptimizer("sgd", options),
)
