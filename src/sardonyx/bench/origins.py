"""Which nodes of a model the nodes of its optimised form came from: by name, or by the tensors between which they stand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import onnx_ir as ir

# What onnxruntime adds to the name of a tensor to name the node that makes it in its blocked layout.
BLOCKED = "_nchwc"


def name_nodes(model: ir.Model) -> None:
    """Gives every node a name that no other has, made of its operator and its first output where it had none."""
    taken: set[str] = set()
    for graph in model.graphs():
        for node in graph:
            wanted = node.name or f"{node.op_type}({node.outputs[0].name if node.outputs else ''})"
            count, fresh = 1, wanted
            while fresh in taken:
                count, fresh = count + 1, f"{wanted}#{count + 1}"
            taken.add(fresh)
            node.name = fresh


def origins(original: ir.Model, optimised: ir.Model) -> dict[str, tuple[str, ...]]:
    """Optimised node -> the nodes of the original that it stands for, in their order. Of what the runtime added: none.

    What a fused node stands for lies between the tensor that it makes and those that it takes, by the names that these
    have in the original. Nodes that the runtime computed in advance do not count.
    """
    nodes = [node for graph in original.graphs() for node in graph]
    by_name = {node.name or "": node for node in nodes}
    folded = _folded(nodes, {name for graph in original.graphs() for name in graph.initializers})
    makers = {value.name: node for node in nodes for value in node.outputs if value.name and node.name not in folded}
    places = {node.name or "": index for index, node in enumerate(nodes)}
    known: dict[str | None, str] = {
        value.name: value.name or "" for graph in original.graphs() for value in graph.inputs
    }
    found: dict[str, tuple[str, ...]] = {}
    for node in (node for graph in optimised.graphs() for node in graph):
        name = node.name or ""
        known |= {value.name: _original_name(node, place, makers, by_name) for place, value in enumerate(node.outputs)}
        stops = {known.get(value.name, "") for value in node.inputs if value is not None}
        between = _between([known[value.name] for value in node.outputs], stops, makers)
        found[name] = tuple(sorted(between, key=places.__getitem__)) or ((name,) if name in by_name else ())
    return found


def _original_name(node: ir.Node, place: int, makers: Mapping[str, ir.Node], by_name: Mapping[str, ir.Node]) -> str:
    """The name in the original of a tensor that an optimised node makes; empty where it has none.

    A node in onnxruntime's blocked layout is called like the tensor that it stands for.
    """
    name, tensor = node.name or "", node.outputs[place].name or ""
    blocked = name.removesuffix(BLOCKED)
    if tensor in makers or (blocked != name and blocked in makers):
        return tensor if tensor in makers else blocked
    twin = by_name.get(name)
    return (twin.outputs[place].name or "") if twin is not None and place < len(twin.outputs) else ""


def _between(ends: Iterable[str], stops: Container[str], makers: Mapping[str, ir.Node]) -> set[str]:
    """The original nodes on the way back from `ends` to `stops`."""
    waiting, seen = [end for end in ends if end not in stops], set()
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is None or maker.name in seen:
            continue
        seen.add(maker.name or "")
        waiting += [value.name or "" for value in maker.inputs if value is not None and value.name not in stops]
    return seen


def _folded(nodes: Iterable[ir.Node], constants: set[str]) -> set[str]:
    """The nodes that depend on nothing but constants."""
    found: set[str] = set()
    for node in nodes:
        nests = any(attribute.type is ir.AttributeType.GRAPH for attribute in node.attributes.values())
        drawn = node.op_type.startswith("Random")
        if not nests and not drawn and all(value is None or value.name in constants for value in node.inputs):
            found.add(node.name or "")
            constants |= {value.name or "" for value in node.outputs}
    return found
