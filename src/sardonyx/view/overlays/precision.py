"""What a node computes in: its data type, and int8 where it stands between a dequantisation and a quantisation."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.view.overlay import Overlay, Subject

_ENCODING = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
# Operators that read integers and compute in them whatever they give.
_INTEGER = ("QLinear", "ConvInteger", "MatMulInteger", "DynamicQuantizeMatMul", "QGemm", "QAttention", "MatMulNBits")
NARROW = {"int8", "uint8", "int4", "uint4", "int2", "uint2"}


def overlay(subject: Subject) -> Overlay:
    """A word for every node: float32, float16, int8 …, or `quantise` and `dequantise` for the steps between."""
    words = {index: _word(subject, node) for index, node in enumerate(subject.nodes)}
    values = {index: word for index, word in words.items() if word}
    return Overlay("precision", "Precision", "word", values)


def _word(subject: Subject, node: ir.Node) -> str:
    if node.op_type == "Constant":
        return ""
    if node.op_type in _ENCODING:
        return "dequantise" if node.op_type.startswith("Dequantize") else "quantise"
    if node.op_type.startswith(_INTEGER):
        return "int8"
    if _between_integers(subject, node):
        return "int8"
    made = [subject.dtype(value) for value in (*node.outputs, *node.inputs)]
    return next(filter(None, made), "")


def _between_integers(subject: Subject, node: ir.Node) -> bool:
    """Whether the runtime may fuse the node with the dequantisations before it: all that it reads was 8 bits or fewer."""
    makers = [value.producer() for value in node.inputs if value is not None and not value.is_initializer()]
    return bool(makers) and all(
        maker is not None and maker.op_type == "DequantizeLinear" and _is_narrow(subject, maker.inputs[0])
        for maker in makers
    )


def _is_narrow(subject: Subject, value: ir.Value | None) -> bool:
    maker = None if value is None else value.producer()
    return subject.dtype(value) in NARROW or (maker is not None and maker.op_type in _ENCODING)
