"""Replaces everything that is computed from constants alone with the result, by onnxscript's folding."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import array_of
from sardonyx.optimize.passes._rewrite import Borrowed

# Elements of an operand up to which anything is folded, and of a result, unless the operands shrink by as much.
OPERAND, RESULT = 1 << 13, 1 << 18
# Operators that only lay values out anew, so that the operand may be of any size: the weights hardly grow. A Cast would
# undo what a model gained by storing its weights in a small type.
LAYOUT = frozenset(
    ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Concat", "Slice", "Split", "Gather")
)
# Kept on purpose: they are how a quantised model says what it is.
QUANTIZED = frozenset(("QuantizeLinear", "DequantizeLinear"))


class FoldConstants(Borrowed):
    """Replaces everything that is computed from constants alone with the result, by onnxscript's folding."""

    order = 20
    what = "nodes computed from constants alone"

    def apply(self, model: ir.Model) -> None:
        from onnxscript.optimizer import fold_constants_ir

        fold_constants_ir(
            model, onnx_shape_inference=True, input_size_limit=OPERAND, output_size_limit=RESULT, should_fold=_always
        )

    def count(self, model: ir.Model) -> int:
        return sum(node.op_type != "Constant" for graph in model.graphs() for node in graph)

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        found = []
        for graph in model.graphs():
            for node in graph:
                given = [value for value in node.inputs if value is not None]
                if given and all(array_of(value) is not None for value in given):
                    found.append((node.name or node.op_type, _why(node)))
        return found


def _always(node: ir.Node) -> bool | None:
    if node.op_type in QUANTIZED:
        return False
    constant = all(value is None or array_of(value) is not None for value in node.inputs)
    return True if node.op_type in LAYOUT and constant else None


def _why(node: ir.Node) -> str:
    if node.op_type in QUANTIZED:
        return "it is how a quantised model says what it is"
    if any(value.is_graph_output() for value in node.outputs):
        return "its output is an output of the graph"
    return "its operands or its result are large, or it draws random numbers"
