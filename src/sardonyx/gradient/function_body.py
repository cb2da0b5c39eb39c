"""A composite operator written out by the function body that ONNX itself gives it."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from sardonyx.build import Expr
from sardonyx.errors import NoGradient
from sardonyx.gradient.site import Site, attributes

# Reductions took their axes as an attribute before opset 18, and bodies of that age still do.
_AXES_BECAME_INPUT = 18


def write_body(at: Site) -> list[Expr | None]:
    """The outputs of the node, computed again by the nodes of its function body."""
    body = _body(at)
    values: dict[str, Expr | None] = {"": None}
    given = [at.build.maybe(value) for value in at.node.inputs]
    values.update(zip(body.input, given + [None] * (len(body.input) - len(given)), strict=True))
    settings = attributes(at.node, at.build.opset)
    for node in body.node:
        present = {name: value for name, value in _attributes(node, settings).items() if value is not None}
        inputs = [values[name] for name in node.input]
        if "axes" in present and node.op_type.startswith("Reduce") and at.build.opset >= _AXES_BECAME_INPUT:
            inputs = [inputs[0], at.build.constant(list(present.pop("axes")))]
        outputs = at.build.emit(node.op_type, inputs, present, len(node.output))
        values.update(zip(node.output, outputs, strict=True))
    return [values.get(name) for name in body.output]


def _body(at: Site) -> onnx.FunctionProto:
    schema = onnx.defs.get_schema(at.node.op_type, at.build.opset, at.node.domain)
    body = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [_type(value) for value in at.node.inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= at.build.opset]
        proto = ir.to_proto(at.node).SerializeToString()
        body.ParseFromString(schema.get_context_dependent_function_with_opset_version(max(versions), proto, types))
    else:
        versions = [v for v in schema.function_opset_versions if v <= at.build.opset]
        body.ParseFromString(schema.get_function_with_opset_version(max(versions)))
    return body


def _type(value: ir.Value | None) -> bytes:
    proto = onnx.TypeProto()
    if value is not None and value.type is not None:
        ir.serde.serialize_type_into(proto, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(proto, value.shape)
    return proto.SerializeToString()


def _attributes(node: onnx.NodeProto, settings: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            found[attribute.name] = settings.get(attribute.ref_attr_name)
        elif attribute.type == onnx.AttributeProto.GRAPH:
            raise NoGradient(
                f"the function body of {node.op_type} holds a graph, which has no gradient here",
                hint="write the operator out with simpler ones",
            )
        else:
            found[attribute.name] = ir.from_proto(attribute).value
    return found
