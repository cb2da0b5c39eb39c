"""Replaces Constant nodes with initializers, where optimisers and onnxruntime look for weights."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from sardonyx.optimize.passes._rewrite import Borrowed


class LiftConstants(Borrowed):
    """Replaces Constant nodes with initializers, where optimisers and onnxruntime look for weights."""

    order = 10
    what = "Constant nodes became initializers"

    def apply(self, model: ir.Model) -> None:
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)

    def count(self, model: ir.Model) -> int:
        return len(_constants(model))

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        return [(node.name or node.outputs[0].name or "", _why(node)) for node in _constants(model)]


def _constants(model: ir.Model) -> list[ir.Node]:
    return [node for graph in model.graphs() for node in graph if node.op_type == "Constant" and node.domain == ""]


def _why(node: ir.Node) -> str:
    if node.outputs[0].is_graph_output():
        return "its output is an output of the graph, which needs a node of its own"
    return "it is filled in where its function is called, or holds strings"
