"""The order of the nodes: cycles, values that nobody makes, nodes that come before what they read."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import onnx

from sardonyx.check._places import Place, made_names, read_names
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "cycle": "Nodes wait for one another in a circle, so that none can be computed.",
    "dangling-input": "A node or an output reads a value that nothing in the model makes.",
    "unsorted-nodes": "A node comes before a node whose output it reads.",
}
_SHOWN = 8


def findings(subject: Subject) -> Iterator[Finding]:
    """Cycles, dangling inputs and unsorted nodes, in the main graph, in subgraphs and in functions."""
    for scope in subject.scopes:
        yield from _in_nodes(subject, scope.graph.node, scope.given, scope.outside, scope.name)
        known = scope.given | made_names(scope.graph.node)
        for value in scope.graph.output:
            if value.name and value.name not in known and value.name not in scope.outside:
                yield _dangling(subject, f"output '{value.name}'", value.name)
    for function in subject.proto.functions:
        yield from _in_nodes(subject, function.node, set(function.input), (), f"function {function.name}")


def cycle(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes of one circle, in the order in which they read one another; nothing where there is none."""
    maker = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    reads = [[maker[name] for name in read_names(node) if name in maker] for node in nodes]
    state = [0] * len(nodes)  # 0 not seen, 1 on the path, 2 done
    for start in range(len(nodes)):
        path, pending = [], [(start, iter(reads[start]))] if not state[start] else []
        while pending:
            index, rest = pending[-1]
            if state[index] == 0:
                state[index] = 1
                path.append(index)
            following = next(rest, None)
            if following is None:
                state[index] = 2
                path.pop()
                pending.pop()
            elif state[following] == 1:
                return [nodes[i] for i in reversed(path[path.index(following) :])]
            elif state[following] == 0:
                pending.append((following, iter(reads[following])))
    return []


def _in_nodes(
    subject: Subject, nodes: Sequence[onnx.NodeProto], given: set[str], outside: Container[str], scope: str
) -> Iterator[Finding]:
    ready, made = set(given), made_names(nodes)
    early: tuple[onnx.NodeProto, str] | None = None
    for node in nodes:
        for name in read_names(node):
            if name in ready or name in outside:
                continue
            if name not in made:
                yield _dangling(subject, _where(node, scope), name)
            elif early is None:
                early = (node, name)
        ready.update(node.output)
    if early is None:
        return
    circle = cycle(nodes)
    if circle:
        yield _circle(circle, scope)
        return
    node, name = early
    yield Finding(
        subject.severity,
        "unsorted-nodes",
        _where(node, scope),
        f"reads '{name}', which a later node makes",
        "sort the nodes topologically; onnxruntime does so by itself, other tools refuse the model",
    )


def _circle(circle: Sequence[onnx.NodeProto], scope: str) -> Finding:
    labels = [node.name or f"{node.op_type} of '{node.output[0]}'" for node in circle]
    shown = labels if len(labels) <= _SHOWN else [*labels[: _SHOWN - 1], f"{len(labels) - _SHOWN + 1} more"]
    return Finding(
        "error",
        "cycle",
        _where(circle[0], scope),
        f"its result goes round in a circle: {' -> '.join([*shown, labels[0]])}",
        "break the circle: an ONNX graph has none, a recurrence is written with Loop or Scan",
    )


def _dangling(subject: Subject, where: str, name: str) -> Finding:
    return Finding(
        subject.severity,
        "dangling-input",
        where,
        f"reads '{name}', which nothing in the model makes",
        "add the value as an input or an initializer, or correct the name",
    )


def _where(node: onnx.NodeProto, scope: str) -> str:
    return Place(node, scope, {}, {}).where
