"""Replaces weights that are equal to the last bit with one that all share."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import DeduplicateHashedInitializersPass

from sardonyx.optimize.passes._rewrite import Borrowed


class ShareInitializers(Borrowed):
    """Replaces weights that are equal to the last bit with one that all share."""

    order = 85
    what = "initializers are shared"

    def apply(self, model: ir.Model) -> None:
        DeduplicateHashedInitializersPass()(model)

    def count(self, model: ir.Model) -> int:
        return sum(len(graph.initializers) for graph in model.graphs())

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        return [
            (name, "a caller may give it, so it may become another one")
            for graph in model.graphs()
            for name, value in graph.initializers.items()
            if value.is_graph_input()
        ]
