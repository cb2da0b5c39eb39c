"""Replaces Gemm(Transpose(a), b), on either side, with a Gemm that turns its operand itself."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, attribute, is_standard, replace
from sardonyx.optimize.passes._rewrite import Rewrite


class FoldTransposeIntoGemm(Rewrite):
    """Replaces Gemm(Transpose(a), b), on either side, with a Gemm that turns its operand itself."""

    order = 72
    operators = ("Gemm",)

    def rewrite(self, node: ir.Node) -> str | None:
        inputs, flags = list(node.inputs), {name: attribute(node, name, 0) for name in ("transA", "transB")}
        turned = []
        for side, flag in enumerate(flags):
            transpose = inputs[side].producer() if inputs[side] is not None else None
            if not is_standard(transpose, "Transpose"):
                continue
            if transpose.outputs[0].is_graph_output() or len(transpose.outputs[0].uses()) > 1:
                raise Declined("other nodes take what the Transpose gives, so it stays")
            inputs[side], flags[flag] = transpose.inputs[0], int(not flags[flag])
            turned.append(flag)
        if not turned:
            return None
        replace(node, "Gemm", inputs, {**node.attributes, **flags})
        return f"turns its operands itself: {', '.join(turned)}"
