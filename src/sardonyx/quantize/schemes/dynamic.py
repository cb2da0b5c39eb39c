"""Weights in INT8, activations rounded on the fly by their own range: no calibration, for products only."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.quantize.schemes._matmul import has_products, with_matmuls
from sardonyx.quantize.schemes._tool import tool
from sardonyx.quantize.steps import Plan, rounded, weight_step
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
    with tool("onnxruntime's quantize_dynamic"), temporary_folder() as scratch:
        source, target = scratch / "float.onnx", scratch / "dynamic.onnx"
        onnx.save(proto, source)
        quantize_dynamic(
            source, target, op_types_to_quantize=["MatMul"], per_channel=True, reduce_range=not subject.vnni,
            weight_type=QuantType.QInt8,
        )  # fmt: skip
        model = Model.from_proto(onnx.load(target))
    del model.ir.metadata_props[_PREPARED]
    if not subject.vnni:
        _bring_closer(model, proto)
    yield Variant("dynamic", "dynamic", model)


def _bring_closer(model: Model, source: onnx.ModelProto) -> None:
    """Gives the weights all bits that cannot overflow, where the tool takes one from each."""
    plan, kept = Plan(frozenset(), reduce_range=True), model.ir.graph.initializers
    for tensor in source.graph.initializer:
        names = [f"{tensor.name}_{word}" for word in ("quantized", "scale", "zero_point")]
        if not all(name in kept for name in names):
            continue
        weight = onnx.numpy_helper.to_array(tensor)
        last = weight.ndim - 1
        step = weight_step(weight, last, plan, (last, *range(last)))
        for name, array in zip(names, (rounded(weight, step), step.scale, step.zero), strict=True):
            before = kept[name].const_value
            assert before is not None
            assert (before.dtype.numpy(), tuple(before.shape)) == (array.dtype, array.shape)
            kept[name].const_value = ir.tensor(array, name=name)
