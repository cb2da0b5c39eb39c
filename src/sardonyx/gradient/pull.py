"""Reverse mode over a list of nodes: from the gradients of some values to those of others, one rule at a time."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from sardonyx.build import Builder, Expr, op
from sardonyx.errors import NoGradient
from sardonyx.gradient.function_body import write_body
from sardonyx.gradient.loops import inputs_of
from sardonyx.gradient.shapes import refined, sum_to
from sardonyx.gradient.site import Gradients, Site, attributes
from sardonyx.gradient.tables import Function, Rule, tables


def pull(
    build: Builder, nodes: Sequence[ir.Node], seeds: Gradients, targets: frozenset[ir.Value]
) -> dict[ir.Value, Expr]:
    """The gradients of `targets`, given those of `seeds`. A target that no seed depends on is left out."""
    varied = depending(nodes, targets)
    sums: dict[ir.Value, list[Expr]] = {value: [g] for value, g in seeds.items() if value in varied}
    for node in reversed(nodes):
        needed = frozenset(value for value in inputs_of(node) if value in varied)
        if not needed or not any(value in sums for value in node.outputs):
            continue
        outputs = [_total(sums, value) for value in node.outputs]
        for value, g in _gradients(Site(node, build, needed, pull), outputs).items():
            sums.setdefault(value, []).append(g)
    return {value: found for value in targets if (found := _total(sums, value)) is not None}


def depending(nodes: Iterable[ir.Node], targets: frozenset[ir.Value]) -> frozenset[ir.Value]:
    """The targets and every float value that changes smoothly with one of them."""
    found = set(targets)
    for node in nodes:
        if (node.domain == "" and node.op_type in tables().zero) or found.isdisjoint(inputs_of(node)):
            continue
        found.update(value for value in node.outputs if is_float(value))
    return frozenset(found)


def is_float(value: ir.Value) -> bool:
    """Whether the value can have a gradient. Of an unknown type, it may."""
    return value.dtype is None or value.dtype.is_floating_point()


def supported(op_type: str, opset: int, domain: str = "") -> bool:
    """Whether the engine can differentiate an operator: by a rule, an expansion, ONNX's function body, or as zero."""
    if domain:
        return False
    known = tables()
    if op_type in known.rules or op_type in known.expansions or op_type in known.zero:
        return True
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _total(sums: dict[ir.Value, list[Expr]], value: ir.Value) -> Expr | None:
    """The sum of all that arrived for a value, kept so that it is added up once."""
    parts = sums.get(value)
    if not parts:
        return None
    if len(parts) > 1:
        parts[:] = [refined(op("Add" if len(parts) == 2 else "Sum", *parts), parts[0])]
    return parts[0]


def _gradients(at: Site, g: list[Expr | None]) -> dict[ir.Value, Expr]:
    node, known = at.node, tables()
    if node.domain != "":
        raise _unsupported(node)
    if node.op_type in known.rules:
        found = _by_rule(at, known.rules[node.op_type], g)
    elif node.op_type in known.expansions:
        found = at.through(_expansion(at, known.expansions[node.op_type]), g)
    elif supported(node.op_type, at.build.opset):
        found = at.through(lambda: write_body(at), g)
    else:
        raise _unsupported(node)
    return found


def _by_rule(at: Site, rule: Rule, g: list[Expr | None]) -> dict[ir.Value, Expr]:
    gs, ys, inputs = _arguments(at, g)
    if isinstance(rule, tuple):
        answer: Any = tuple(
            _call(at, part, gs, ys, *inputs) if part is not None and at.needs(index) else None
            for index, part in enumerate(rule)
        )
    else:
        answer = _call(at, rule, gs, ys, *inputs)
    if isinstance(answer, dict):
        return answer
    answers = answer if isinstance(answer, tuple | list) else (answer,)
    found: dict[ir.Value, Expr] = {}
    for value, given in zip(at.node.inputs, answers, strict=False):
        if value is None or given is None or value not in at.needed:
            continue
        x = at.build.expr(value)
        if at.node.op_type in tables().broadcasts:
            given = sum_to(refined(given, at.build.expr(at.node.outputs[0])), x)
        given = refined(given, x)
        # One value may be read twice by a node, as in x * x.
        found[value] = found[value] + given if value in found else given
    return found


def _arguments(at: Site, g: list[Expr | None]) -> tuple[Any, Any, list[Any]]:
    """`g`, `y` and the inputs as the rules expect them."""
    node, build = at.node, at.build
    schema = onnx.defs.get_schema(node.op_type, build.opset, node.domain)
    inputs: list[Any] = [build.maybe(value) for value in node.inputs]
    if not _variadic(schema.inputs):
        inputs += [None] * (schema.max_input - len(inputs))
    if schema.max_output == 1:
        return g[0], build.expr(node.outputs[0]), inputs
    ys: list[Any] = [build.maybe(value if value.name else None) for value in node.outputs]
    missing = 0 if _variadic(schema.outputs) else schema.max_output - len(ys)
    return (*g, *[None] * missing), (*ys, *[None] * missing), inputs


def _variadic(parameters: Sequence[Any]) -> bool:
    return bool(parameters) and parameters[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def _expansion(at: Site, forward: Function) -> Function:
    _, _, inputs = _arguments(at, [None] * len(at.node.outputs))
    return lambda: _call(at, forward, *inputs)


def _call(at: Site, function: Function, *arguments: Any) -> Any:
    """Calls a rule with the attributes that it names."""
    wanted = _keywords(function)
    values = attributes(at.node, at.build.opset) if wanted else {}
    chosen = {name: at if name == "at" else values.get(name) for name in wanted}
    return function(*arguments, **chosen)


@cache
def _keywords(function: Function) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY)


def _unsupported(node: ir.Node) -> NoGradient:
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return NoGradient(
        f"the node '{node.name}' is a {kind}, and Sardonyx has no gradient rule for it",
        hint="freeze the parameters before this node, or write it with operators listed in docs/gradients.md",
    )
