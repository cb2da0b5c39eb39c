"""Activations, and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import where

# Readers that give a zero no infinite gradient, and those that pass on what their own readers give.
_GENTLE = {"BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul", "Relu"}
_PASSING = {
    "Add", "AveragePool", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "Identity", "MaxPool", "Pad", "ReduceMean",
    "Reshape", "Slice", "Split", "Squeeze", "Sum", "Transpose", "Unsqueeze",
}  # fmt: skip
_STEEPEST = float(np.finfo(np.float32).max)


def _relu(g: Expr, y: Expr, x: Expr, *, at: Any) -> Expr:
    """`g` where the output is above zero. A product is several times as fast as a choice, but makes NaN of infinities."""
    if y.dtype != ir.DataType.FLOAT or not _read_gently(y.value, at.build.made):
        return where(y > 0, g, 0)
    return g * op("HardSigmoid", y, alpha=_STEEPEST, beta=0.0)


def _read_gently(y: ir.Value, written: Collection[ir.Node]) -> bool:
    """Whether every reader of the value in the forward graph keeps its gradient finite."""
    seen, waiting = {y}, [y]
    while waiting:
        value = waiting.pop()
        readers = [use.node for use in value.uses() if use.node not in written]
        if value.is_graph_output() or not readers:
            return False
        for node in readers:
            if node.op_type in _PASSING:
                waiting += [output for output in node.outputs if output not in seen]
                seen.update(node.outputs)
            elif node.op_type not in _GENTLE:
                return False
    return True


def _sigmoid(x: Expr) -> Expr:
    return op("Sigmoid", x)


def _gelu(g: Expr, y: Expr, x: Expr, *, approximate: str) -> Expr:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        t = op("Tanh", inner)
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    # Twice the slope is 1 + erf(z) + x exp(ln c - z^2), with z = x / sqrt 2 and c = sqrt(2 / pi).
    z = x * math.sqrt(0.5)
    return 0.5 * g * (op("Erf", z) + 1 + x * op("Exp", 0.5 * math.log(2 / math.pi) - z * z))


def _mish(g: Expr, y: Expr, x: Expr) -> Expr:
    t, s = op("Tanh", op("Softplus", x)), _sigmoid(x)
    return g * (t + x * s * (1 - t * t))


def _hard_sigmoid(g: Expr, y: Expr, x: Expr, *, alpha: float, beta: float) -> Expr:
    z = alpha * x + beta
    return where((z > 0) & (z < 1), alpha * g, 0)


def _hard_swish(g: Expr, y: Expr, x: Expr) -> Expr:
    return where(x > 3, g, where(x < -3, 0, g * (x / 3 + 0.5)))


def _softsign(g: Expr, y: Expr, x: Expr) -> Expr:
    d = 1 + op("Abs", x)
    return g / (d * d)


def _swish(g: Expr, y: Expr, x: Expr, *, alpha: float) -> Expr:
    s = _sigmoid(alpha * x)
    return g * (s + alpha * x * s * (1 - s))


def _softmax(g: Expr, y: Expr, x: Expr, *, axis: int) -> Expr:
    weighted = g * y
    return weighted - y * op("ReduceSum", weighted, [axis], keepdims=1)


def _log_softmax(g: Expr, y: Expr, x: Expr, *, axis: int) -> Expr:
    return g - op("Exp", y) * op("ReduceSum", g, [axis], keepdims=1)


def _selu(g: Expr, y: Expr, x: Expr, *, alpha: float, gamma: float) -> Expr:
    return where(x > 0, gamma * g, g * (alpha * gamma) * op("Exp", op("Min", x, 0.0)))


def _shrink(g: Expr, y: Expr, x: Expr, *, lambd: float) -> Expr:
    return where(op("Abs", x) > lambd, g, 0)


BROADCASTS = {"PRelu"}

RULES: dict[str, Any] = {
    "Relu": _relu,
    "LeakyRelu": lambda g, y, x, *, alpha: where(x < 0, alpha * g, g),
    "PRelu": (lambda g, y, x, s: where(x < 0, s * g, g), lambda g, y, x, s: where(x < 0, g * x, 0)),
    "ThresholdedRelu": lambda g, y, x, *, alpha: where(x > alpha, g, 0),
    # The smaller of x and 0 keeps the exponential finite where it is not used.
    "Elu": lambda g, y, x, *, alpha: where(x > 0, g, g * alpha * op("Exp", op("Min", x, 0.0))),
    "Celu": lambda g, y, x, *, alpha: where(x > 0, g, g * op("Exp", op("Min", x, 0.0) / alpha)),
    "Selu": _selu,
    "Gelu": _gelu,
    "Mish": _mish,
    "Swish": _swish,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Sigmoid": lambda g, y, x: g * y * (1 - y),
    "Tanh": lambda g, y, x: g * (1 - y * y),
    "Softplus": lambda g, y, x: g * op("Sigmoid", x),
    "Softsign": _softsign,
    "Shrink": _shrink,
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
}

ZERO = {"Hardmax"}
