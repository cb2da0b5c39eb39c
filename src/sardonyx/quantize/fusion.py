"""What onnxruntime makes of Quantize/Dequantize pairs on this machine: an integer kernel, or float work with more steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

import onnx

from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.quantize.qdq import after_clamp
from sardonyx.run.bounded import load
from sardonyx.run.session import Settings, options

_MARKS = re.compile(r"(_nchwc|_in_float|_token_\d+)+$")
_FLOAT_PRODUCTS = ("Conv", "FusedConv", "MatMul", "FusedMatMul", "Gemm", "FusedGemm")


def optimized(model: Model, settings: Settings | None = None) -> onnx.ModelProto:
    """The graph that onnxruntime runs in the end."""
    with temporary_folder() as scratch:
        path = scratch / "optimized.onnx"
        chosen = options(settings or Settings())
        chosen.optimized_model_filepath = str(path)
        load(model.to_proto().SerializeToString(), chosen)
        return onnx.load(path)


def unfused(model: Model, names: Container[str]) -> frozenset[str]:
    """Of the named products those that still compute in float, between rounding steps."""
    owner = owners(model)
    found = (owner(node.name) for node in optimized(model).graph.node if node.op_type in _FLOAT_PRODUCTS)
    return frozenset(name for name in found if name in names)


def owners(model: Model) -> Callable[[str], str]:
    """Tells the node of `model` that a node of the optimised graph stands for.

    A fused node is called by its own name with a number, or by the tensor it gives, with a mark for its layout.
    """
    known = {node.name or "": node.name or "" for node in model.ir.graph}
    for node in model.ir.graph:
        if node.op_type in ("Conv", "MatMul", "Gemm"):
            known |= {value.name or "": node.name or "" for value in (after_clamp(node), node.outputs[0])}

    def owner(name: str) -> str:
        plain = _MARKS.sub("", name)
        return known.get(name, known.get(plain, plain))

    return owner
