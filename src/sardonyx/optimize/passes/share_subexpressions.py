"""Replaces nodes that compute the same from the same inputs with one."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import CommonSubexpressionEliminationPass

from sardonyx.optimize.passes._rewrite import Borrowed

RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
)
# Those that onnx_ir takes for repeatable.
MISTAKEN = frozenset(("Bernoulli",))


class ShareSubexpressions(Borrowed):
    """Replaces nodes that compute the same from the same inputs with one."""

    order = 80
    what = "nodes computed what another one computes"

    def apply(self, model: ir.Model) -> None:
        if not any(node.op_type in MISTAKEN for graph in model.graphs() for node in graph):
            CommonSubexpressionEliminationPass()(model)

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        return [
            (node.name or node.op_type, "it draws random numbers, so no two nodes compute the same")
            for graph in model.graphs()
            for node in graph
            if node.op_type in RANDOM
        ]
