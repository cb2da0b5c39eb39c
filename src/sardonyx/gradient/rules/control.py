"""If, Scan and Loop. The gradient of a loop is a Scan that walks back over the states that the loop passed through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from sardonyx.build import Builder, Expr, op
from sardonyx.gradient.loops import captured, close, replay, scan
from sardonyx.gradient.shapes import join_sizes, reshape, size_of, zeros_like
from sardonyx.gradient.site import Site

Found = dict[ir.Value, Expr]


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


def _if(
    g: tuple[Expr | None, ...], y: Any, condition: Expr, *, then_branch: ir.Graph, else_branch: ir.Graph, at: Site
) -> Found:
    """Each branch computes its own values again and the gradients of what it captured."""
    wanted = [value for value in at.needed if value is not condition.value]
    branches = [_branch(at, branch, g, wanted) for branch in (then_branch, else_branch)]
    made = at.build.emit(
        "If", [condition], {"then_branch": branches[0].graph, "else_branch": branches[1].graph}, len(wanted)
    )
    for value, gradient in zip(wanted, made, strict=True):
        gradient.value.type, gradient.value.shape = value.type, value.shape
    return dict(zip(wanted, made, strict=True))


def _branch(at: Site, branch: ir.Graph, g: tuple[Expr | None, ...], wanted: Sequence[ir.Value]) -> Builder:
    body = at.build.body("branch", [])
    written = replay(body, branch, {})
    seeds: Found = {}
    for value, part in zip(branch.outputs, g, strict=False):
        if part is not None:
            mine = written.get(value, value)
            seeds[mine] = seeds[mine] + body.expr(part.value) if mine in seeds else body.expr(part.value)
    found = at.pull(body, list(body.graph), seeds, frozenset(wanted))
    close(body, [found.get(value) or zeros_like(body.expr(value)) for value in wanted])
    return body


@dataclass(frozen=True)
class _State:
    """A value that a loop carries: inside the body before and after a turn, before the first turn, and its final gradient."""

    before: ir.Value
    after: ir.Value
    first: Expr
    g: Expr | None


@dataclass(frozen=True)
class _Stack:
    """A value with one slice per turn: the slice inside the body, the whole outside, its axis, and whether it runs backwards."""

    inside: ir.Value
    whole: Expr
    axis: int = 0
    backwards: bool = False


def _walk_back(
    at: Site, body: ir.Graph, known: dict[ir.Value, ir.Value], states: Sequence[_State], read: Sequence[_Stack],
    saved: Sequence[_Stack], given: Sequence[_Stack], wanted: Sequence[ir.Value],
) -> tuple[list[Expr], list[Expr], list[Expr]]:  # fmt: skip
    """Gradients of the first states, of the slices read, and of the captured values, by a Scan over the turns in reverse."""
    build = at.build
    carried = [state for state in states if _is_float(state.before)]
    starts = [state.g if state.g is not None else zeros_like(state.first) for state in carried]
    weights = [value for value in wanted if _only_multiplies(body, value)]
    summed = [value for value in wanted if value not in weights]
    totals = [zeros_like(build.expr(value)) for value in summed]
    stacks = [*saved, *read, *given]
    sliced = [stack for stack in read if _is_float(stack.inside)]

    def step(now: list[Expr], slices: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        inner = slices[0].build
        count = len(saved) + len(read)
        values = {stack.inside: x.value for stack, x in zip(stacks[:count], slices[:count], strict=True)}
        with inner.recording() as nodes:
            written = replay(inner, body, {**known, **values})
        seeds: Found = {}
        for old, part in (
            *((state.after, x) for state, x in zip(carried, now, strict=False)),
            *((stack.inside, x) for stack, x in zip(given, slices[count:], strict=True)),
        ):
            mine = written.get(old, old)
            seeds[mine] = seeds[mine] + part if mine in seeds else part
        targets = [*(values[state.before] for state in carried), *(values[s.inside] for s in sliced), *summed]
        products = [node for value in weights for node in _products(nodes, value)]
        targets += [node.outputs[0] for node in products]
        found = at.pull(inner, list(nodes), seeds, frozenset(targets))
        nexts = [found.get(values[state.before]) or zeros_like(x) for state, x in zip(carried, now, strict=False)]
        for value, total in zip(summed, now[len(carried) :], strict=True):
            nexts.append(total + found[value] if value in found else total)
        outputs = [found.get(values[s.inside]) or zeros_like(inner.expr(values[s.inside])) for s in sliced]
        for node in products:
            left, product = (inner.expr(value) for value in (node.inputs[0], node.outputs[0]) if value is not None)
            outputs += [left, found.get(product.value) or zeros_like(product)]
        return nexts, outputs

    finals, pieces = scan(
        build, [*starts, *totals], [stack.whole for stack in stacks], step,
        backwards=[not stack.backwards for stack in stacks], axes=[stack.axis for stack in stacks],
        out_backwards=[not stack.backwards for stack in sliced], out_axes=[stack.axis for stack in sliced],
    )  # fmt: skip
    outer = dict(zip(summed, finals[len(carried) :], strict=True))
    rest = iter(pieces[len(sliced) :])
    for value in weights:
        outer[value] = _product_gradient(build.expr(value), [(next(rest), next(rest)) for _ in _products(body, value)])
    return finals[: len(carried)], pieces[: len(sliced)], [outer[value] for value in wanted]


def _products(nodes: Iterable[ir.Node], weight: ir.Value) -> list[ir.Node]:
    return [node for node in nodes if weight in node.inputs]


def _only_multiplies(body: ir.Graph, weight: ir.Value) -> bool:
    """Whether each turn does nothing with the captured matrix but multiply rows by it."""
    nodes = _products(body, weight)
    inside = {inner for node in body for inner in captured(node)}
    return bool(nodes) and weight not in inside and weight not in body.outputs and all(
        node.op_type == "MatMul" and node.inputs[0] is not weight and _is_matrix(node.inputs[0]) and _is_matrix(weight)
        for node in nodes
    )  # fmt: skip


def _is_matrix(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and len(value.shape) == 2


def _product_gradient(weight: Expr, parts: Sequence[tuple[Expr, Expr]]) -> Expr:
    """One product over all turns, instead of a small one in each that is added up."""
    rows = [
        reshape(part, join_sizes([-1, size_of(weight, i)], weight)) for pair in parts for i, part in enumerate(pair)
    ]
    found = [op("Gemm", left, g, transA=1) for left, g in zip(rows[::2], rows[1::2], strict=True)]
    return op("Sum", *found) if len(found) > 1 else found[0]


def _gather(
    at: Site, states: Sequence[_State], read: Sequence[_Stack], wanted: Sequence[ir.Value], found: Any
) -> Found:
    firsts, pieces, totals = found
    answer: Found = {}
    outer = [
        *(state.first.value for state in states if _is_float(state.before)),
        *(stack.whole.value for stack in read if _is_float(stack.inside)),
        *wanted,
    ]
    for value, gradient in zip(outer, [*firsts, *pieces, *totals], strict=True):
        if value in at.needed:
            answer[value] = answer[value] + gradient if value in answer else gradient
    return answer


def _save(at: Site, body: ir.Graph, values: Sequence[ir.Value]) -> list[Expr]:
    """Makes the node give each of these body inputs stacked over the turns, as outputs of its own."""
    inner = Builder(body, at.build.opset, outer=at.build)
    saved = []
    for value in values:
        body.outputs.append(inner.emit("Identity", [inner.expr(value)], {}, 1)[0].value)
        index = len(at.node.outputs)
        at.node.resize_outputs(index + 1)
        stacked = at.node.outputs[index]
        stacked.name = at.build.names.fresh(f"{at.node.name or at.node.op_type}_saved")
        stacked.type = value.type
        stacked.shape = None if value.shape is None else ir.Shape([None, *value.shape])
        saved.append(at.build.expr(stacked))
    return saved


def _type_inputs(body: ir.Graph, outer: Sequence[Expr | None]) -> None:
    """Tells the inputs of a body what they are, where the model leaves it out."""
    for value, given in zip(body.inputs, outer, strict=True):
        if given is not None and value.type is None:
            value.type = given.value.type
        if given is not None and value.shape is None:
            value.shape = given.value.shape


def _scan(
    g: tuple[Expr | None, ...], y: Any, *inputs: Expr, body: ir.Graph, num_scan_inputs: int, scan_input_axes: list[int] | None,
    scan_input_directions: list[int] | None, scan_output_axes: list[int] | None, scan_output_directions: list[int] | None,
    at: Site,
) -> Found:  # fmt: skip
    count = len(inputs) - num_scan_inputs
    outs = len(body.outputs) - count
    wanted = [value for value in at.needed if value not in {x.value for x in inputs}]
    _type_inputs(body, [*inputs[:count], *[None] * num_scan_inputs])
    axes, directions = scan_input_axes or [0] * num_scan_inputs, scan_input_directions or [0] * num_scan_inputs
    read = [
        _Stack(value, x, axis % x.rank, bool(way))
        for value, x, axis, way in zip(body.inputs[count:], inputs[count:], axes, directions, strict=True)
    ]
    for stack in read:
        stack.inside.type = stack.whole.value.type
        if stack.whole.shape is not None:
            stack.inside.shape = ir.Shape([n for i, n in enumerate(stack.whole.shape) if i != stack.axis])
    out_axes, out_ways = scan_output_axes or [0] * outs, scan_output_directions or [0] * outs
    given = [
        _Stack(value, part, axis % part.rank, bool(way))
        for value, part, axis, way in zip(body.outputs[count:], g[count:], out_axes, out_ways, strict=False)
        if part is not None
    ]
    states = [_State(body.inputs[i], body.outputs[i], inputs[i], g[i]) for i in range(count)]
    saved = [_Stack(state.before, x) for state, x in zip(states, _save(at, body, body.inputs[:count]), strict=True)]
    for name, old in (("scan_output_axes", scan_output_axes), ("scan_output_directions", scan_output_directions)):
        if old is not None:
            at.node.attributes[name] = ir.AttrInt64s(name, [*old, *[0] * count])
    found = _walk_back(at, body, {}, states, read, saved, given, wanted)
    return _gather(at, states, read, wanted, found)


def _loop(
    g: tuple[Expr | None, ...],
    y: Any,
    trips: Expr | None,
    condition: Expr | None,
    *inputs: Expr,
    body: ir.Graph,
    at: Site,
) -> Found:
    """A turn happened only where the condition held, so that walking back it is true."""
    count = len(inputs)
    wanted = [value for value in at.needed if value not in {x.value for x in inputs}]
    _type_inputs(body, [None, None, *inputs])
    body.inputs[0].type, body.inputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
    states = [_State(body.inputs[2 + i], body.outputs[1 + i], inputs[i], g[i]) for i in range(count)]
    given = [
        _Stack(value, part)
        for value, part in zip(body.outputs[1 + count :], g[count:], strict=False)
        if part is not None
    ]
    kept = [body.inputs[0], *(state.before for state in states)]
    saved = [_Stack(value, x) for value, x in zip(kept, _save(at, body, kept), strict=True)]
    true = at.build.constant(True, ir.DataType.BOOL)
    found = _walk_back(at, body, {body.inputs[1]: true.value}, states, [], saved, given, wanted)
    return _gather(at, states, [], wanted, found)


RULES: dict[str, Any] = {"If": _if, "Scan": _scan, "Loop": _loop}
