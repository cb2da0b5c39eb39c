"""Replaces Identity(x) with x."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import bypass
from sardonyx.optimize.passes._rewrite import Rewrite


class RemoveIdentities(Rewrite):
    """Replaces Identity(x) with x. onnx_ir's own pass fails on graphs inside nodes that give one value twice."""

    order = 90
    operators = ("Identity",)

    def rewrite(self, node: ir.Node) -> str | None:
        bypass(node, node.inputs[0])
        return "Identity changed nothing"
