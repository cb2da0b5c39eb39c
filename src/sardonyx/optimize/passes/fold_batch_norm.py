"""Replaces BatchNormalization(Conv(x)), or of ConvTranspose, Gemm or MatMul, with the product alone, its weights scaled."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._affine import PRODUCTS, fold_behind, of_batch_norm
from sardonyx.optimize.passes._graph import is_standard, need_alone
from sardonyx.optimize.passes._rewrite import Rewrite


class FoldBatchNorm(Rewrite):
    """Replaces BatchNormalization(Conv(x)), or of ConvTranspose, Gemm or MatMul, with the product alone, its weights scaled."""

    order = 60
    operators = ("BatchNormalization",)

    def rewrite(self, node: ir.Node) -> str | None:
        product = node.inputs[0].producer()
        if not is_standard(product, *PRODUCTS):
            return None
        affine = of_batch_norm(node)
        need_alone(node.inputs[0])
        fold_behind(product, node, affine)
        return f"folded into {product.op_type}"
