"""The graph in ONNX's text form, for reading: every node is a line, and of large constants only the first values are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model
from sardonyx.report import visible
from sardonyx.signature import TYPE_NAME

# Lines of a listing, characters of a line, and values of a constant: more is for `sardonyx view`.
LINES, WIDTH, VALUES = 2000, 300, 6
_STEP = "   "


def graph_text(model: Model, *, lines: int = LINES) -> str:
    """The graph and the functions of the model, at most so many lines; the last one then says how many are left out."""
    shown, left = list[str](), 0
    for line in _model(model.ir):
        if len(shown) < lines:
            shown.append(_cut(visible(line.replace("\n", "\\n"))))
        else:
            left += 1
    if left:
        shown.append(f"… and {left:,} more lines; sardonyx view shows the whole graph")
    return "\n".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}…"


def _model(model: ir.Model) -> Iterator[str]:
    imports = ", ".join(f'"{domain}": {version}' for domain, version in model.opset_imports.items())
    yield f"<ir_version: {model.ir_version}, opset_import: [{imports}]>"
    yield from _graph(model.graph, "")
    for function in model.functions.values():
        inputs, outputs = (
            ", ".join(value.name or "" for value in side) for side in (function.inputs, function.outputs)
        )
        yield f"<domain: {_quoted(function.domain)}>"
        yield f"{function.name} ({inputs}) => ({outputs}) {{"
        yield from _nodes(function, _STEP)
        yield "}"


def _graph(graph: ir.Graph, indent: str, head: str = "", tail: str = "") -> Iterator[str]:
    """The lines of a graph; `head` stands before its name, and `tail` after its end."""
    held = graph.initializers
    inputs = ", ".join(_typed(value) for value in graph.inputs if value.name not in held)
    outputs = ", ".join(map(_typed, graph.outputs))
    opened = f"{indent}{head}{graph.name or 'graph'} ({inputs}) => ({outputs})"
    if held:
        yield opened
        yield f"{indent}<"
        for place, value in enumerate(held.values(), 1):
            said = _typed(value) if value.const_value is None else f"{_tensor_type(value.const_value)} {value.name}"
            yield f"{indent}{_STEP}{said} = {_values(value.const_value)}{',' if place < len(held) else ''}"
        yield f"{indent}>"
        yield f"{indent}{{"
    else:
        yield f"{opened} {{"
    yield from _nodes(graph, indent + _STEP)
    yield f"{indent}}}{tail}"


def _nodes(nodes: Iterable[ir.Node], indent: str) -> Iterator[str]:
    for node in nodes:
        name = f"[{node.name}] " if node.name else ""
        outputs = ", ".join(value.name or "" for value in node.outputs)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        inputs = ", ".join("" if value is None else value.name or "" for value in node.inputs)
        inner = [attribute for attribute in node.attributes.values() if _graphs(attribute)]
        plain = [f"{key} = {_attribute(item)}" for key, item in node.attributes.items() if not _graphs(item)]
        settings = f" <{', '.join(plain)}>" if plain else ""
        line = f"{indent}{name}{outputs} = {operator}{settings} ({inputs})"
        if not inner:
            yield line
            continue
        yield f"{line} <"
        held = [(item.name, graph) for item in inner for graph in _graphs(item)]
        for place, (key, graph) in enumerate(held, 1):
            yield from _graph(graph, indent + _STEP, f"{key} = ", "," if place < len(held) else "")
        yield f"{indent}>"


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.is_ref():
        return []
    if attribute.type is ir.AttributeType.GRAPH:
        return [attribute.value]
    return list(attribute.value) if attribute.type is ir.AttributeType.GRAPHS else []


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value = attribute.value
    if attribute.type is ir.AttributeType.TENSOR:
        return f"{_tensor_type(value)} {_values(value)}"
    if isinstance(value, list | tuple):
        return f"[{_listed(value, len(value))}]"
    return _scalar(value)


def _values(tensor: Any) -> str:
    """The first values of a constant; of one that lies in another file, where it lies."""
    if tensor is None:
        return "{…}"
    if isinstance(tensor, ir.ExternalTensor):
        return f"{{… in {tensor.location}}}"
    if isinstance(tensor, ir.StringTensor):
        first: Any = [item.decode(errors="replace") for item in list(tensor.string_data())[:VALUES]]
    else:
        first = np.asarray(tensor.numpy()).reshape(-1)[:VALUES]
    return f"{{{_listed(first, tensor.size)}}}"


def _listed(first: Iterable[Any], count: int) -> str:
    words = [_scalar(item) for item in list(first)[:VALUES]]
    return ", ".join(words) + (f", … {count:,} in all" if count > len(words) else "")


def _scalar(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return _quoted(value)
    plain = value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufc" else value
    return f"{plain:.7g}" if isinstance(plain, float) else str(plain)


def _quoted(text: str) -> str:
    cut = text if len(text) <= 60 else f"{text[:60]}…"
    return '"' + cut.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _typed(value: ir.Value) -> str:
    """'float[n,3] x'."""
    kind = value.type
    if kind is None:
        return f"{value.meta.get(TYPE_NAME, '?')} {value.name}"
    if type(kind).__name__ != "TensorType":
        return f"{kind} {value.name}"
    sizes = "" if value.shape is None else "[" + ",".join(map(_dim, value.shape)) + "]"
    return f"{kind.dtype.name.lower()}{sizes} {value.name}"


def _dim(dim: int | ir.SymbolicDim) -> str:
    return str(dim) if isinstance(dim, int) else dim.value or "?"


def _tensor_type(tensor: Any) -> str:
    sizes = ",".join(map(str, tensor.shape))
    return f"{tensor.dtype.name.lower()}{f'[{sizes}]' if sizes else ''}"
