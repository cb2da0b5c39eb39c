"""Weights in 8 bits, activations in float: for models that wait for memory, not for arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.quantize.schemes._matmul import has_products
from sardonyx.quantize.schemes._weight_only import weight_only
from sardonyx.quantize.subject import Subject, Variant

RANK = 5


def refusal(subject: Subject) -> str | None:
    """Only products have a kernel for it."""
    return None if has_products(subject.model) else "no MatMul or Gemm with constant weights"


def variants(subject: Subject) -> Iterator[Variant]:
    """Weight-only INT8."""
    yield from weight_only(subject, "weight_int8", 8)
