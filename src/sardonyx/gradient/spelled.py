"""Operators that an exporter has spelled out in simpler ones, put back: one node keeps one value for the gradient, not five."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import RewriteRuleSet, pattern


def put_back(model: ir.Model) -> None:
    """Replaces x / √2 -> Erf -> + 1 -> · x -> · 0.5, in single precision, with Gelu."""
    if any(node.op_type == "Erf" for node in model.graph):
        _rules().apply_to_model(model)


@cache
def _rules() -> RewriteRuleSet:
    return RewriteRuleSet(
        [pattern.RewriteRule(each, _gelu, _is_single) for each in (_half_last, _half_first)], commute=True
    )


def _half_last(op: Any, x: Any) -> Any:
    return (x * (op.Erf(x / math.sqrt(2)) + 1.0)) * 0.5


def _half_first(op: Any, x: Any) -> Any:
    return (x * 0.5) * (op.Erf(x / math.sqrt(2)) + 1.0)


def _gelu(op: Any, x: Any) -> Any:
    return op.Gelu(x)


def _is_single(context: Any, x: ir.Value) -> bool:  # noqa: ARG001
    """onnxruntime computes Gelu in single precision whatever comes in."""
    return x.dtype == ir.DataType.FLOAT
