"""What a rule sees of the node that it differentiates, besides the values: the keyword argument `at`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from sardonyx.build import Builder, Expr, infer, infer_together

Gradients = Mapping[ir.Value, Expr]


@dataclass(frozen=True)
class Site:
    """A node, the builder that writes its gradient, and which of its inputs need one."""

    node: ir.Node
    build: Builder
    needed: frozenset[ir.Value]
    pull: Callable[[Builder, Sequence[ir.Node], Gradients, frozenset[ir.Value]], dict[ir.Value, Expr]]

    def needs(self, index: int) -> bool:
        """Whether somebody asks for the gradient of this input."""
        return index < len(self.node.inputs) and self.node.inputs[index] in self.needed

    def output(self, index: int) -> Expr:
        """An output of the node, added to it where the model did not ask for it."""
        if index >= len(self.node.outputs):
            before = len(self.node.outputs)
            self.node.resize_outputs(index + 1)
            for value in self.node.outputs[before:]:
                value.name = self.build.names.fresh(f"{self.node.name or self.node.op_type}_out")
        value = self.node.outputs[index]
        if not value.name:
            value.name = self.build.names.fresh(f"{self.node.name or self.node.op_type}_out")
        if value.type is None:
            infer(self.node, self.build.opset)
        return self.build.expr(value)

    def replace(self, index: int, new: Expr) -> None:
        """Lets the graph use another value, which must be equal, in place of an output of the node."""
        if index >= len(self.node.outputs) or not self.node.outputs[index].name:
            return
        old = self.node.outputs[index]
        new = self.build.emit("Identity", [new], {}, 1)[0] if new.value.is_graph_output() else new
        new.value.type, new.value.shape = old.type or new.value.type, old.shape or new.value.shape
        self.build.replace(old, new)

    def through(self, forward: Callable[[], Any], g: Sequence[Expr | None]) -> dict[ir.Value, Expr]:
        """The gradient of the operator written again in simpler ones. What the gradient does not use is removed at the end."""
        with self.build.recording() as nodes:
            answer = forward()
        if any(value.shape is None for node in nodes for value in node.outputs):
            infer_together(nodes, self.build.opset)
            for node in nodes:
                if any(value.shape is None for value in node.outputs):
                    infer(node, self.build.opset)
        outputs = answer if isinstance(answer, tuple | list) else (answer,)
        seeds = {y.value: part for y, part in zip(outputs, g, strict=False) if y is not None and part is not None}
        return self.pull(self.build, list(nodes), seeds, self.needed)


def attributes(node: ir.Node, opset: int) -> dict[str, Any]:
    """The node's attributes as plain values, with the defaults that the operator has at this opset, None for the rest."""
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    found: dict[str, Any] = {}
    for name, definition in schema.attributes.items():
        default = definition.default_value
        found[name] = onnx.helper.get_attribute_value(default) if default.name else None
        found[name] = _text(found[name])
    for name, attribute in node.attributes.items():
        found[name] = attribute.value
        if attribute.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
            found[name] = list(attribute.value)
    return found


def _text(value: Any) -> Any:
    """Bytes as text, also inside a list."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
