"""Half precision inside, float32 at both ends: half the size; faster only where the machine computes in half."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import onnx

from sardonyx.model import Model
from sardonyx.quantize.schemes._tool import tool
from sardonyx.quantize.subject import Subject, Variant

RANK = 7


def variants(subject: Subject) -> Iterator[Variant]:
    """The whole model in float16, except for operators that have no such kernel."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with tool("onnxruntime's float16 converter"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it names every weight that is too small for half precision
        proto = convert_float_to_float16(subject.model.to_proto(), keep_io_types=True, disable_shape_infer=True)
        model = Model.from_proto(without_twins(proto))
    yield Variant("fp16", "fp16", model)


def without_twins(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without casts that the converter wrote twice, once for each user of a constant, under one name."""
    kept, seen = [], set()
    for node in proto.graph.node:
        content = node.SerializeToString()
        if node.op_type != "Cast" or content not in seen:
            kept.append(node)
        seen.add(content)
    own = onnx.ModelProto()
    own.CopyFrom(proto)
    del own.graph.node[:]
    own.graph.node.extend(kept)
    return own
