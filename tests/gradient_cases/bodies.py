"""Operators that are written out by the function bodies that ONNX gives them."""

from __future__ import annotations

from typing import Any

from gradient_cases._values import functional, normal
from gradient_certify import Case, Const, case

_HEADS = [normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)]


def _attention(q: Any, k: Any, v: Any, *rest: Any, **settings: Any) -> Any:
    return functional().scaled_dot_product_attention(q, k, v, *rest, **settings)


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    a, b = x.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


CASES: list[Case] = [
    case("Attention", *_HEADS, torch=_attention),
    case("Attention", *_HEADS, normal(3, 5), name="mask", torch=_attention),
    case("Attention", *_HEADS, name="causal", is_causal=1),
    case(
        "Attention",
        normal(2, 3, 8),
        normal(2, 5, 8),
        normal(2, 5, 8),
        name="flat heads",
        q_num_heads=2,
        kv_num_heads=2,
        dynamic=False,
    ),
    case("RotaryEmbedding", normal(2, 3, 4, 8), normal(2, 4, 4), normal(2, 4, 4), single=True, torch=_rotated),
    case("CenterCropPad", normal(4, 6), Const(2, 8)),
]
