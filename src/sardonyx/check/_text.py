"""Names that are not UTF-8, which protobuf hands over as bytes, made readable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from sardonyx.external import graphs, text


def made_readable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with every name as text; what was not UTF-8 gets replacement characters."""
    for message, fields in _messages(model):
        for field in fields:
            value = getattr(message, field)
            if isinstance(value, bytes):
                setattr(message, field, text(value))
            elif not isinstance(value, str) and any(isinstance(item, bytes) for item in value):
                value[:] = [text(item) for item in value]
    return model


def _messages(model: onnx.ModelProto) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every part that carries names, with the fields that hold them."""
    nodes = []
    for function in model.functions:
        yield function, ("name", "domain", "input", "output")
        yield from ((entry, ("domain",)) for entry in function.opset_import)
        nodes.extend(function.node)
    yield from ((entry, ("domain",)) for entry in model.opset_import)
    for graph in graphs(model):
        yield from ((value, ("name",)) for group in (graph.input, graph.output, graph.value_info) for value in group)
        yield from ((tensor, ("name",)) for tensor in graph.initializer)
        yield from ((sparse.values, ("name",)) for sparse in graph.sparse_initializer)
        nodes.extend(graph.node)
    for node in nodes:
        yield node, ("name", "op_type", "domain", "input", "output")
        yield from ((attribute, ("name",)) for attribute in node.attribute)
