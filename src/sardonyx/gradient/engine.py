"""Gradients as a graph: a model that computes the gradients of another, in standard ONNX operators alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx import history
from sardonyx.build import Builder, Expr
from sardonyx.errors import InputError, NotFound, UsageError
from sardonyx.gradient.loops import inputs_of
from sardonyx.gradient.prepare import prepared
from sardonyx.gradient.pull import depending, is_float, pull, supported
from sardonyx.gradient.shapes import ones_like, zeros_like
from sardonyx.model import Model

SUFFIX = "_grad"


def differentiate(
    model: Model,
    *,
    wrt: Sequence[str],
    loss: str | None = None,
    output_gradients: Sequence[str] = (),
    keep_outputs: bool = True,
    suffix: str = SUFFIX,
) -> Model:
    """A new model whose outputs are those of `model` and, for every name in `wrt`, its gradient `NAME_grad`.

    `wrt`: inputs or initializers (or any float value of the graph). Initializers stay initializers.
    `loss`: the scalar output to differentiate; by default the only output. Its gradient is taken as one.
    `output_gradients`: instead of a loss, outputs whose gradients `NAME_grad` become inputs of the new model.
    `keep_outputs=False` leaves out the outputs of `model`, and the nodes that only they need.

    The given model is left as it was. The result has no custom operator and is an ordinary graph: it can be differentiated again.
    """
    if loss is not None and output_gradients:
        raise UsageError("give a loss or output gradients, not both", hint="leave one of them out")
    work = prepared(model)
    graph = work.ir.graph
    build = Builder(graph, work.opset, prefix="grad/")
    forward = list(graph)
    targets = [_value(graph, name) for name in _distinct(wrt)]
    seeds = _given_seeds(build, output_gradients, suffix) if output_gradients else _loss_seed(build, loss)
    found = pull(build, forward, seeds, frozenset(targets))
    if not keep_outputs:
        graph.outputs.clear()
    for target in targets:
        _named(build, target, found.get(target), suffix)
    _tidy(work.ir)
    return work.record(history.step("differentiate", options={"wrt": list(wrt), "loss": loss}))


@dataclass(frozen=True)
class Blocker:
    """A node that no gradient passes, and the values in `wrt` that lie behind it."""

    node: str
    op_type: str
    behind: tuple[str, ...]


def blockers(model: Model, *, wrt: Sequence[str], of: Sequence[str] | None = None) -> list[Blocker]:
    """The nodes between `wrt` and the outputs `of` (all by default) that `differentiate` would refuse, in graph order."""
    work = prepared(model)
    nodes = list(work.ir.graph)
    outputs = [_value(work.ir.graph, name) for name in of] if of else list(work.ir.graph.outputs)
    reaching = _reaching(nodes, outputs)
    targets = [_value(work.ir.graph, name) for name in _distinct(wrt)]
    varied = {target: depending(nodes, frozenset([target])) for target in targets}
    found = []
    for node in nodes:
        behind = [t.name or "" for t in targets if not varied[t].isdisjoint(inputs_of(node))]
        live = any(is_float(value) and value in reaching for value in node.outputs)
        if behind and live and not _all_supported(node, work.opset):
            found.append(Blocker(node.name or "", node.op_type, tuple(behind)))
    return found


def _all_supported(node: ir.Node, opset: int) -> bool:
    inner = (child for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH for child in a.value)
    return supported(node.op_type, opset, node.domain) and all(_all_supported(child, opset) for child in inner)


def _reaching(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> set[ir.Value]:
    found = set(outputs)
    for node in reversed(nodes):
        if not found.isdisjoint(node.outputs):
            found.update(inputs_of(node))
    return found


def _distinct(names: Sequence[str]) -> list[str]:
    if not names:
        raise UsageError("nothing to differentiate with respect to", hint="name inputs or initializers in wrt")
    return list(dict.fromkeys(names))


def _value(graph: ir.Graph, name: str) -> ir.Value:
    """The value of that name, which must hold floats."""
    inner = (value for node in graph for value in node.outputs)
    values = {value.name: value for value in (*inner, *graph.initializers.values(), *graph.inputs)}
    if name not in values:
        raise NotFound(
            f"the model has no value '{name}'",
            hint=f"it has {', '.join([*(v.name or '' for v in graph.inputs), *list(graph.initializers)[:8]])}, …",
        )
    if not is_float(values[name]):
        raise InputError(
            f"'{name}' holds {values[name].dtype}, which has no gradient", hint="differentiate with respect to floats"
        )
    return values[name]


def _loss_seed(build: Builder, loss: str | None) -> dict[ir.Value, Expr]:
    outputs = {value.name: value for value in build.graph.outputs}
    if loss is None and len(outputs) != 1:
        raise UsageError(f"the model has {len(outputs)} outputs", hint=f"name the loss: {', '.join(map(str, outputs))}")
    value = outputs.get(loss) if loss is not None else next(iter(outputs.values()))
    if value is None:
        raise NotFound(f"the model has no output '{loss}'", hint=f"outputs: {', '.join(map(str, outputs))}")
    expr = build.expr(value)
    if expr.sizes is None or any(size != 1 for size in expr.sizes):
        raise InputError(
            f"the loss '{value.name}' has the shape {expr.shape}, and a loss is one number",
            hint="reduce it to a scalar, or give output_gradients",
        )
    return {value: ones_like(expr) if expr.sizes else build.constant(1, expr.dtype)}


def _given_seeds(build: Builder, outputs: Sequence[str], suffix: str) -> dict[ir.Value, Expr]:
    seeds = {}
    for name in _distinct(outputs):
        value = _value(build.graph, name)
        given = ir.val(build.names.fresh(f"{name}{suffix}"), value.dtype, value.shape)
        build.graph.inputs.append(given)
        seeds[value] = build.expr(given)
    return seeds


def _named(build: Builder, target: ir.Value, found: Expr | None, suffix: str) -> None:
    """Makes the gradient an output under its own name; zeros for a value that nothing depends on."""
    gradient = found if found is not None else zeros_like(build.expr(target))
    own = gradient.value.producer() in build.made and not gradient.value.is_graph_output()
    value = gradient.value if own else build.emit("Identity", [gradient], {}, 1)[0].value
    value.name = build.names.fresh(f"{target.name}{suffix}")
    value.shape, value.type = target.shape, target.type
    build.graph.outputs.append(value)


def _tidy(model: ir.Model) -> None:
    """Removes what no output needs."""
    passes.RemoveUnusedNodesPass()(model)
    passes.TopologicalSortPass()(model)


__all__ = ["Blocker", "blockers", "differentiate"]
