"""Unsigned activations, signed weights per channel: the form that x86 multiplies fastest.

Without VNNI pairs of weights are kept small: two products of 8 bits are added in 16, which saturate.
"""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.quantize.schemes._static import static_variants
from sardonyx.quantize.steps import Plan
from sardonyx.quantize.subject import Subject, Variant

RANK = 1


def variants(subject: Subject) -> Iterator[Variant]:
    """Static INT8, U8S8, and once more with outliers apart, where there are any."""
    plan = Plan(frozenset(), reduce_range=not subject.vnni)
    yield from static_variants(subject, "static_u8s8", plan)
    if subject.apart is not None:
        yield from static_variants(subject.apart, "static_u8s8", plan, ("products",), name="static_u8s8 apart,")
