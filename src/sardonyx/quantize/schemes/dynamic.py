"""Weights in INT8, activations rounded on the fly by their own range: no calibration, for products only."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx

from sardonyx.model import Model
from sardonyx.quantize.schemes._matmul import has_products, with_matmuls
from sardonyx.quantize.schemes._tool import tool
from sardonyx.quantize.subject import Subject, Variant

RANK = 2

# Without this mark it warns, on the root logger, that the model should be prepared first.
_PREPARED = "onnx.quant.pre_process"


def refusal(subject: Subject) -> str | None:
    """Convolutions on the fly are several times slower than in float, so products it must have."""
    return None if has_products(subject.model) else "no MatMul or Gemm with constant weights"


def variants(subject: Subject) -> Iterator[Variant]:
    """Dynamic INT8 of every MatMul with constant weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    proto = with_matmuls(subject.model).to_proto()
    del proto.graph.value_info[:]  # types that it would trust although it transposes weights
    proto.metadata_props.add(key=_PREPARED, value="onnxruntime.quant")
    with tool("onnxruntime's quantize_dynamic"), tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        source, target = Path(scratch) / "float.onnx", Path(scratch) / "dynamic.onnx"
        onnx.save(proto, source)
        quantize_dynamic(
            source, target, op_types_to_quantize=["MatMul"], per_channel=True, reduce_range=not subject.vnni,
            weight_type=QuantType.QInt8,
        )  # fmt: skip
        model = Model.from_proto(onnx.load(target))
    del model.ir.metadata_props[_PREPARED]
    yield Variant("dynamic", "dynamic", model)
