"""Unsigned activations and weights: 8 full bits that cannot saturate without VNNI, at half the speed of U8S8."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.quantize.schemes._static import static_variants
from sardonyx.quantize.steps import Plan
from sardonyx.quantize.subject import Subject, Variant

RANK = 3


def variants(subject: Subject) -> Iterator[Variant]:
    """Static INT8, U8U8."""
    yield from static_variants(subject, "static_u8u8", Plan(frozenset(), weight="uint8"), ("joined", "products"))
