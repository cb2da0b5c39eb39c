"""Every node of a model with what its names mean there: in the main graph, in subgraphs and in functions."""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx

STANDARD = ("", "ai.onnx")
_NAMES = {"FLOAT": "float", "DOUBLE": "double"}


@dataclass(frozen=True)
class Place:
    """A node, the graph it lies in, the operator versions that hold there, and the types of the names it may read."""

    node: onnx.NodeProto
    scope: str
    imports: Mapping[str, int]
    types: Mapping[str, str]

    @property
    def domain(self) -> str:
        return domain_of(self.node.domain)

    @property
    def version(self) -> int | None:
        return self.imports.get(self.domain)

    @property
    def where(self) -> str:
        """`node 'conv1' (Conv)`; a nameless node is known by its first output."""
        name = f"node '{self.node.name}'" if self.node.name else f"node of '{next(iter(self.node.output), '')}'"
        return f"{name} ({self.node.op_type}){f' in {self.scope}' if self.scope else ''}"


@dataclass(frozen=True)
class Scope:
    """A graph with its name among the others, the types of the names it may read, and the names it sees from outside."""

    graph: onnx.GraphProto
    name: str
    types: ChainMap[str, str]
    outside: ChainMap[str, None]

    @property
    def given(self) -> set[str]:
        """The names that are there before the first node runs."""
        return given_names(self.graph)


def domain_of(domain: str) -> str:
    """'ai.onnx' and '' are one domain."""
    return "" if domain in STANDARD else domain


def imports_of(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Domain to version. Where a domain is imported twice, onnxruntime takes the last (measured)."""
    return {domain_of(entry.domain): entry.version for entry in entries}


def scopes(model: onnx.ModelProto) -> Iterator[Scope]:
    """The main graph and every graph inside it, outer before inner. Walks without recursion."""
    waiting = deque([(model.graph, "", ChainMap[str, str](), ChainMap[str, None]())])
    while waiting:
        graph, name, types, outside = waiting.popleft()
        types = types.new_child(declared_types(graph))
        yield Scope(graph, name, types, outside)
        carriers = [(node, attribute, inner) for node in graph.node for attribute, inner in inner_graphs(node)]
        if not carriers:
            continue
        inside = outside.new_child(dict.fromkeys(given_names(graph) | made_names(graph.node)))
        for node, attribute, inner in carriers:
            label = f"{attribute} of {node.name or node.op_type}"
            waiting.append((inner, f"{label} in {name}" if name else label, types, inside))


def places(model: onnx.ModelProto) -> Iterator[Place]:
    """Every node, in the main graph first, then in subgraphs, then in functions (where no type is known)."""
    imports = imports_of(model.opset_import)
    for scope in scopes(model):
        for node in scope.graph.node:
            yield Place(node, scope.name, imports, scope.types)
    for function in model.functions:
        local = imports_of(function.opset_import)
        waiting = deque((node, f"function {function.name}") for node in function.node)
        while waiting:
            node, name = waiting.popleft()
            yield Place(node, name, local, {})
            waiting.extend((inside, name) for _, graph in inner_graphs(node) for inside in graph.node)


def inner_graphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The graphs that a node carries, by attribute."""
    for attribute in node.attribute:
        # Whatever the attribute says its type is: a file can say one thing and hold another.
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        yield from ((attribute.name, graph) for graph in attribute.graphs)


def given_names(graph: onnx.GraphProto) -> set[str]:
    """Inputs and initializers."""
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return names | {sparse.values.name for sparse in graph.sparse_initializer}


def made_names(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in node.output if name}


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads: its inputs, and what the graphs inside it take from around them."""
    yield from filter(None, node.input)
    for _, graph in inner_graphs(node):
        own = given_names(graph) | made_names(graph.node)
        inner = (name for inside in graph.node for name in read_names(inside))
        yield from (name for name in (*inner, *(value.name for value in graph.output)) if name not in own)


def declared_types(graph: onnx.GraphProto) -> dict[str, str]:
    """Name to type of everything the graph declares, in the words of onnxruntime: 'tensor(float)'."""
    types = {tensor.name: f"tensor({element_name(tensor.data_type)})" for tensor in graph.initializer}
    for group in (graph.value_info, graph.output, graph.input):
        for value in group:
            word = type_name(value.type)
            if word:
                types[value.name] = word
    return types


def type_name(kind: onnx.TypeProto) -> str | None:
    """'tensor(float)', 'seq(map(int64,tensor(float)))', or nothing where the type is not known."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        element = getattr(kind, which).elem_type
        return f"{which.removesuffix('_type')}({element_name(element)})" if element else None
    if which == "sequence_type":
        return _wrapped("seq", kind.sequence_type.elem_type)
    if which == "optional_type":
        return _wrapped("optional", kind.optional_type.elem_type)
    if which == "map_type":
        value = type_name(kind.map_type.value_type)
        return value and f"map({element_name(kind.map_type.key_type)},{value})"
    return None


def element_name(element: int) -> str:
    """onnxruntime's word for an element type: FLOAT -> float."""
    try:
        name = onnx.TensorProto.DataType.Name(element)
    except ValueError:
        return f"type {element}"
    return _NAMES.get(name, name.lower())


def _wrapped(word: str, inner: onnx.TypeProto) -> str | None:
    name = type_name(inner)
    return name and f"{word}({name})"
