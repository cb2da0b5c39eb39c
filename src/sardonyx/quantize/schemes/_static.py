"""Static schemes: ranges come from calibration, and Quantize/Dequantize pairs say where integers are."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from sardonyx.quantize.prepare import is_weighted
from sardonyx.quantize.qdq import quantizable
from sardonyx.quantize.steps import Plan
from sardonyx.quantize.subject import Subject, Variant

# Between the products: what costs little on integers, and what loses precision there.
_JOINING = frozenset(("Add", "GlobalAveragePool", "AveragePool", "Concat", "MaxPool", "Reshape", "Transpose", "Flatten",
                      "Squeeze", "Unsqueeze"))  # fmt: skip


REACHES = ("whole", "joined", "products")


def static_variants(
    subject: Subject, scheme: str, plan: Plan, words: tuple[str, ...] = REACHES, *, name: str = ""
) -> Iterator[Variant]:
    """The scheme on everything, on products with what joins them, and on products alone, where these differ."""
    name = name or scheme
    tried: set[frozenset[str]] = set()
    reaches = _reaches([node for node in quantizable(subject.model) if node.name not in subject.narrow])
    for word in words:
        nodes = reaches[word]
        if nodes and nodes not in tried:
            tried.add(nodes)
            chosen = Plan(nodes, plan.activation, plan.weight, plan.per_channel, plan.reduce_range)
            yield Variant(f"{name} {word}", scheme, subject.built(chosen), chosen, subject.calibrator, subject)


def _reaches(nodes: list[ir.Node]) -> dict[str, frozenset[str]]:
    products = frozenset(node.name or "" for node in nodes if is_weighted(node))
    joined = products | {node.name or "" for node in nodes if node.op_type in _JOINING}
    return {"whole": frozenset(node.name or "" for node in nodes), "joined": frozenset(joined), "products": products}
