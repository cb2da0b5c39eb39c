"""Replaces a graph that holds nodes, weights, functions and opsets nobody needs with one that does not."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from sardonyx.optimize.passes._rewrite import Borrowed


class RemoveUnused(Borrowed):
    """Replaces a graph that holds nodes, weights, functions and opsets nobody needs with one that does not."""

    order = 99
    what = "nodes, weights and functions that nobody needs"

    def apply(self, model: ir.Model) -> None:
        for unused in (RemoveUnusedNodesPass(), RemoveUnusedFunctionsPass(), RemoveUnusedOpsetsPass()):
            unused(model)

    def count(self, model: ir.Model) -> int:
        return len(model.functions) + sum(len(graph) + len(graph.initializers) for graph in model.graphs())

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        return [
            (value.name or "", "nothing takes it, but it is an input that callers give")
            for value in model.graph.inputs
            if not value.uses() and not value.is_graph_output()
        ]
