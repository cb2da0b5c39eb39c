"""Weights in few bits, in blocks with a scale each; activations stay float."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.model import Model
from sardonyx.quantize.schemes._matmul import with_matmuls
from sardonyx.quantize.schemes._tool import tool
from sardonyx.quantize.subject import Subject, Variant

# onnxruntime's own code for "multiply as INT8 inside": the fastest it has for weights in few bits.
_INT8_INSIDE = 4
BLOCK = 32


def weight_only(subject: Subject, scheme: str, bits: int) -> Iterator[Variant]:
    """Every MatMul with constant weights as MatMulNBits."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    proto = with_matmuls(subject.model).to_proto()
    with tool("onnxruntime's MatMulNBits quantizer"):
        quantizer = MatMulNBitsQuantizer(
            proto, bits=bits, block_size=BLOCK, is_symmetric=True, accuracy_level=_INT8_INSIDE
        )
        quantizer.process()
        model = Model.from_proto(quantizer.model.model)
    yield Variant(scheme, scheme, model)
