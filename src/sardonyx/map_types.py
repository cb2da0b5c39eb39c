"""Map types, which onnx_ir does not read: taken aside on the way into it and put back on the way out.

A classifier of scikit-learn gives its probabilities as a sequence of maps, from class to probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from sardonyx.signature import TYPE_NAME, dtype_name

KEY = "sardonyx.map_type"


@contextmanager
def set_aside(proto: onnx.ModelProto) -> Iterator[dict[str, onnx.TypeProto]]:
    """Inside the block no value of the main graph has a map type; yields those types by name."""
    graph = proto.graph
    values = [value for value in (*graph.input, *graph.output, *graph.value_info) if _has_map(value.type)]
    held = {}
    for value in values:
        held[value.name] = onnx.TypeProto()
        held[value.name].CopyFrom(value.type)
        value.ClearField("type")
    try:
        yield held
    finally:
        for value in values:
            value.type.CopyFrom(held[value.name])


def remember(model: ir.Model, held: dict[str, onnx.TypeProto]) -> None:
    """Notes the types on the values of the graph that have those names."""
    for value in (*model.graph.inputs, *model.graph.outputs, *(out for node in model.graph for out in node.outputs)):
        if value.name in held:
            value.meta[KEY], value.meta[TYPE_NAME] = held[value.name], name(held[value.name])


def put_back(proto: onnx.ModelProto, model: ir.Model) -> None:
    """Gives the inputs and outputs of `proto`, which was made from `model`, their map types again."""
    for written, values in ((proto.graph.input, model.graph.inputs), (proto.graph.output, model.graph.outputs)):
        for info, value in zip(written, values, strict=True):
            if KEY in value.meta:
                info.type.CopyFrom(value.meta[KEY])


def present(model: ir.Model) -> bool:
    """Whether an input or output of the model is a map or holds one."""
    return any(KEY in value.meta for value in (*model.graph.inputs, *model.graph.outputs))


def name(kind: onnx.TypeProto) -> str:
    """'sequence(map(int64,float32))'."""
    word = kind.WhichOneof("value")
    if word == "map_type":
        return f"map({_element(kind.map_type.key_type)},{name(kind.map_type.value_type)})"
    if word in ("sequence_type", "optional_type"):
        return f"{word.removesuffix('_type')}({name(getattr(kind, word).elem_type)})"
    return _element(kind.tensor_type.elem_type) if word == "tensor_type" else "unknown"


def _element(number: int) -> str:
    return dtype_name(ir.DataType(number))


def _has_map(kind: onnx.TypeProto) -> bool:
    word = kind.WhichOneof("value")
    if word in ("sequence_type", "optional_type"):
        return _has_map(getattr(kind, word).elem_type)
    return word == "map_type"
