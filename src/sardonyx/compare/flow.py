"""A model as a flat list of steps: functions and taken branches inlined, constants and initializers alike called weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from sardonyx.model import Model

_BODY = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True)
class Step:
    """One node. `captured` are the outer tensors that its bodies read; `inner` renames what lies inside those bodies."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node: ir.Node | None = field(default=None, repr=False)
    captured: tuple[str, ...] = ()
    inner: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def reads(self) -> list[str]:
        """Every tensor that the step needs, named once."""
        return list(dict.fromkeys(name for name in (*self.inputs, *self.captured) if name))

    def attributes(self) -> list[ir.Attr]:
        return [] if self.node is None else list(self.node.attributes.values())

    @cached_property
    def proto(self) -> onnx.NodeProto:
        """The node without its metadata, which may be larger than the graph. Not to be changed: it is kept."""
        proto = onnx.NodeProto(op_type=self.op_type, domain=self.domain, name=self.name)
        proto.input.extend(self.inputs)
        proto.output.extend(self.outputs)
        for attribute in self.attributes():
            written = ir.serde.serialize_attribute(attribute)
            written.ClearField("doc_string")
            for body in (written.g, *written.graphs):
                _rename_body(body, self.inner)
            proto.attribute.append(written)
        return proto


@dataclass(frozen=True)
class Flow:
    """Steps in topological order, and the weights that they read. Weights stay where they are until they are asked for.

    `inputs` maps names to types.
    """

    steps: tuple[Step, ...]
    weights: Mapping[str, ir.TensorProtocol]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    opsets: Mapping[str, int]
    ir_version: int

    @classmethod
    def of(cls, model: Model) -> Flow:
        source = model.ir
        if source.functions:
            source = source.clone()
            InlinePass()(source)
        weights: dict[str, ir.TensorProtocol] = {}
        steps = tuple(_steps(source.graph, weights, {}))
        inputs = {value.name or "": str(value.type) for value in source.graph.inputs if value.name not in weights}
        outputs = tuple(value.name or "" for value in source.graph.outputs)
        return cls(steps, weights, inputs, outputs, dict(source.opset_imports), model.ir_version)

    @cached_property
    def producer(self) -> dict[str, int]:
        """Tensor to the index of the step that makes it."""
        return {name: index for index, step in enumerate(self.steps) for name in step.outputs if name}

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Every tensor that a step makes, in topological order."""
        return tuple(self.producer)

    def weight_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.weights.values())

    def since(self, step: Step) -> int:
        """The opset in which the step's operator came to mean what it means here."""
        version = self.opsets.get(step.domain, self.opsets.get("ai.onnx", 0) if not step.domain else 0)
        try:
            return int(onnx.defs.get_schema(step.op_type, version, step.domain).since_version)
        except onnx.defs.SchemaError:
            return version

    def needed(self, targets: Iterable[str], known: Collection[str] = ()) -> list[int]:
        """Indices of the steps that make the targets when the `known` tensors are given, in topological order."""
        waiting, found = [name for name in targets if name not in known], set[int]()
        while waiting:
            index = self.producer.get(waiting.pop())
            if index is not None and index not in found:
                found.add(index)
                waiting.extend(name for name in self.steps[index].reads if name not in known)
        return sorted(found)

    def variable(self) -> set[str]:
        """The tensors that depend on the inputs; the others are computed from weights alone."""
        found = set(self.inputs)
        for step in self.steps:
            if not found.isdisjoint(step.reads):
                found.update(step.outputs)
        return found

    def up_to(self, step: Step) -> Flow:
        """The flow that makes what the step reads, and ends there."""
        kept = tuple(self.steps[index] for index in self.needed(step.reads))
        return replace(self, steps=kept, outputs=tuple(name for name in step.reads if name in self.producer))

    def branches(self) -> list[Step]:
        """The If nodes that stand in the open, not inside a loop."""
        return [step for step in self.steps if step.op_type == "If" and step.domain == ""]

    def take(self, decisions: Mapping[str, bool]) -> Flow:
        """The flow with every If in `decisions` (by its first output) replaced by the branch that it takes."""
        steps: list[Step] = []
        weights = dict(self.weights)
        used = {*self.producer, *weights, *self.inputs}
        for step in self.steps:
            if step.op_type == "If" and step.outputs[0] in decisions:
                steps += _taken(step, decisions[step.outputs[0]], weights, used)
            else:
                steps.append(step)
        return replace(self, steps=tuple(steps), weights=weights)


def constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """The tensor that a Constant node holds, whichever attribute holds it; None for strings and sparse ones."""
    for name, attribute in node.attributes.items():
        if name == "value":
            return attribute.as_tensor()
        if name in ("value_int", "value_ints"):
            return ir.tensor(np.array(attribute.value, np.int64))
        if name in ("value_float", "value_floats"):
            return ir.tensor(np.array(attribute.value, np.float32))
    return None


def captured(node: ir.Node) -> list[str]:
    """Names that the node's bodies read from around them."""
    return list(dict.fromkeys(name for body in bodies(node) for name in _free(body)))


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _steps(graph: ir.Graph, weights: dict[str, ir.TensorProtocol], names: Mapping[str, str]) -> Iterator[Step]:
    """The graph's nodes as steps, with constants moved to `weights` and every name looked up in `names` first."""
    for value in graph.initializers.values():
        if value.const_value is not None:
            weights[_named(value, names)] = value.const_value
    for index, node in enumerate(graph):
        tensor = constant_tensor(node) if node.op_type == "Constant" and node.domain == "" else None
        if tensor is not None:
            weights[_named(node.outputs[0], names)] = tensor
            continue
        outputs = tuple(_named(value, names) for value in node.outputs)
        yield Step(
            name=node.name or f"{node.op_type} #{index}",
            op_type=node.op_type,
            domain="" if node.domain == "ai.onnx" else node.domain,
            inputs=tuple(_named(value, names) for value in node.inputs),
            outputs=outputs,
            node=node,
            captured=tuple(names.get(name, name) for name in captured(node)),
            inner=names,
        )


def _taken(step: Step, condition: bool, weights: dict[str, ir.TensorProtocol], used: set[str]) -> list[Step]:
    """The steps of the branch, and an Identity for every output of the If."""
    assert step.node is not None, "an If always comes from a node"
    branch = step.node.attributes["then_branch" if condition else "else_branch"].as_graph()
    # Branches of different Ifs may use a name twice; a name inside must not meet one outside.
    names = dict(step.inner)
    own = [value.name for value in branch.initializers.values()] + [v.name for node in branch for v in node.outputs]
    for name in filter(None, own):
        fresh, count = name, 1
        while fresh in used:
            fresh, count = f"{name}@{count}", count + 1
        names[name] = fresh
        used.add(fresh)
    inside = list(_steps(branch, weights, names))
    ends = [
        Step(f"{step.name}/{output}", "Identity", "", (_named(value, names),), (output,))
        for value, output in zip(branch.outputs, step.outputs, strict=True)
        if output
    ]
    return inside + ends


def _named(value: ir.Value | None, names: Mapping[str, str]) -> str:
    if value is None or not value.name:
        return ""
    return names.get(value.name, value.name)


def _free(graph: ir.Graph) -> Iterator[str]:
    own = {value.name for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph:
        reads = [value.name for value in node.inputs if value is not None and value.name]
        yield from (name for name in (*reads, *captured(node)) if name not in own)
        own |= {value.name for value in node.outputs}
    yield from (value.name for value in graph.outputs if value.name and value.name not in own)


def _rename_body(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    if not names:
        return
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for field_ in (node.input, node.output):
            field_[:] = [names.get(name, name) for name in field_]
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _rename_body(body, names)
