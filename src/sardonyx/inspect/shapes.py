"""The type and shape of every value of a model, for one set of input sizes.

onnx infers one node at a time. Between the nodes, small values are computed (a shape that is taken apart and put together
again), subgraphs are followed, and operators that onnx knows nothing about come from a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir
from onnx import shape_inference

from sardonyx import progress
from sardonyx.inspect import control, fold, shape_rules
from sardonyx.inspect.facts import UNKNOWN, Body, Fact, Shape, Step

# onnx reports a node it cannot infer in several ways; for us each means that the shape stays unknown.
_REFUSALS = (
    shape_inference.InferenceError,
    onnx.checker.ValidationError,
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
)
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
)


class Walk:
    """A pass over the model in its own order. `facts` holds what became known, `steps` the nodes of the main graph."""

    def __init__(self, model: ir.Model, inputs: Mapping[str, Shape], sizes: Mapping[str, int]) -> None:
        self.facts: dict[ir.Value, Fact] = {}
        self._sizes = sizes
        self._opsets = {
            "" if domain == "ai.onnx" else domain: version for domain, version in model.opset_imports.items()
        }
        self._ir_version = int(model.ir_version or onnx.IR_VERSION)
        for value in model.graph.inputs:
            self.facts[value] = self._declared(value, inputs.get(value.name or ""))
        with progress.task("inferring shapes", total=len(model.graph)) as advance:
            self.steps = self.graph(model.graph, advance)

    def graph(self, graph: ir.Graph, advance: Any = None) -> tuple[Step, ...]:
        """The steps of a graph whose inputs are known already."""
        for value in graph.initializers.values():
            if value.const_value is not None:
                self.facts[value] = Fact.of_weight(value.const_value)
        steps = []
        for node in graph:
            steps.append(self._step(node))
            if advance is not None:
                advance()
        return tuple(steps)

    def fact(self, value: ir.Value | None) -> Fact:
        return UNKNOWN if value is None else self.facts.get(value, UNKNOWN)

    def _step(self, node: ir.Node) -> Step:
        inputs = tuple(map(self.fact, node.inputs))
        bodies: tuple[Body, ...] = ()
        followed = True
        if control.followed(node, self._opsets.get("", 0)):
            outputs, bodies = control.FOLLOWED[node.op_type](self, node, inputs)
        elif any(attribute.type in _GRAPHS for attribute in node.attributes.values()):
            outputs, followed = [UNKNOWN] * len(node.outputs), False
        else:
            outputs = self._outputs(node, inputs)
        kept = tuple(self._completed(value, fact) for value, fact in zip(node.outputs, outputs, strict=True))
        self.facts.update(zip(node.outputs, kept, strict=True))
        return Step(node, inputs, kept, bodies, choice=node.op_type == "If", followed=followed)

    def _outputs(self, node: ir.Node, inputs: Sequence[Fact]) -> list[Fact]:
        if node.domain == "" and node.op_type == "Constant":
            return [fold.constant(node)]
        constant = node.op_type not in _RANDOM and all(
            fact.constant for value, fact in zip(node.inputs, inputs, strict=True) if value is not None
        )
        facts = [Fact(kind, None, constant) for kind in self._types(node, inputs)]
        return fold.evaluated(node, inputs, facts, self._opsets)

    def _types(self, node: ir.Node, inputs: Sequence[Fact]) -> list[onnx.TypeProto | None]:
        ruled = shape_rules.outputs(node, inputs)
        if ruled is not None:
            return ruled
        operator = shape_rules.standard(node)
        schema = _schema(*operator, self._opsets.get(operator[0], 0))
        if schema is None:
            return [None] * len(node.outputs)
        proto = fold.node_proto(node, *operator, attributes=schema.attributes)
        names = dict(zip(proto.input, inputs, strict=True))
        try:
            found = shape_inference.infer_node_outputs(
                schema,
                proto,
                {name: fact.type or onnx.TypeProto() for name, fact in names.items() if name},
                {
                    name: onnx.numpy_helper.from_array(fact.data)
                    for name, fact in names.items()
                    if fact.data is not None
                },
                opset_imports=[onnx.helper.make_opsetid(*item) for item in self._opsets.items()],
                ir_version=self._ir_version,
            )
        except _REFUSALS:
            return [None] * len(node.outputs)
        return [found.get(name) for name in proto.output]

    def _completed(self, value: ir.Value, fact: Fact) -> Fact:
        """The fact, with what the model itself declares where nothing could be inferred."""
        if fact.sizes is not None or value.shape is None:
            return fact
        declared = self._declared(value, None)
        if fact.shape is None or declared.shape is None or len(fact.shape) != len(declared.shape):
            return fact if fact.shape is not None else declared
        dims = tuple(own if own is not None else other for own, other in zip(fact.shape, declared.shape, strict=True))
        return Fact.tensor(int(fact.dtype or declared.dtype or 0), dims, constant=fact.constant)

    def _declared(self, value: ir.Value, shape: Shape | None) -> Fact:
        dtype = value.dtype
        if dtype is None or not isinstance(value.type, ir.TensorType):
            return Fact(None if value.type is None else ir.serde.serialize_type(value.type))
        if shape is None and value.shape is not None:
            shape = tuple(dim if isinstance(dim, int) else self._sizes.get(dim.value or "") for dim in value.shape)
        return Fact.tensor(int(dtype), shape)


@cache
def _schema(domain: str, name: str, version: int) -> onnx.defs.OpSchema | None:
    try:
        schema = onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None
    return schema if schema.has_type_and_shape_inference_function else None
