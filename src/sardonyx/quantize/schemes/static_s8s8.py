"""Signed activations, signed weights per channel: the form that ARM and GPUs multiply fastest."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.quantize.schemes._static import static_variants
from sardonyx.quantize.steps import Plan
from sardonyx.quantize.subject import Subject, Variant

RANK = 4


def variants(subject: Subject) -> Iterator[Variant]:
    """Static INT8, S8S8."""
    yield from static_variants(subject, "static_s8s8", Plan(frozenset(), activation="int8"), ("joined", "products"))
