"""A network becomes four graphs of standard operators: training, evaluation, optimizer, and all of a step in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx import history
from sardonyx.build import Builder, op
from sardonyx.errors import InputError, NotFound
from sardonyx.gradient.engine import differentiate
from sardonyx.gradient.prepare import prepared
from sardonyx.gradient.tables import tables
from sardonyx.model import Model
from sardonyx.signature import Array
from sardonyx.training import parameters
from sardonyx.training.attaching import Attach, attach_model, attach_named, attach_output
from sardonyx.training.lowering import lowered
from sardonyx.training.manifest import Kept, Label, Manifest, Parameter, Tensor
from sardonyx.training.modes import OUT, BatchNorm, in_evaluation, in_training
from sardonyx.training.updating import Rule, append_update, moments_of, optimizer_graph
from sardonyx.training.values import BOOL, described, dtype_of, new_input

LOSS = "loss"

__all__ = ["Attach", "Graphs", "Rule", "assemble", "attach_model", "attach_named", "attach_output"]


@dataclass(frozen=True)
class Graphs:
    """The graphs, what they are made of, and the values that a run starts from."""

    training: Model
    evaluation: Model
    optimizer: Model | None
    step: Model | None
    manifest: Manifest
    values: dict[str, Array]


def assemble(
    model: Model,
    *,
    attach: Attach,
    rule: Rule | None,
    train: Sequence[str] | None = None,
    freeze: Sequence[str] = (),
    predictions: Sequence[str] | None = None,
    extra_outputs: Sequence[str] = (),
    batch_norm: BatchNorm = "onnx",
) -> Graphs:
    """Every graph that training `model` needs. Without a rule there is no optimizer and no step.

    `predictions`: the outputs that the loss takes, all by default. `extra_outputs`: outputs that the training graph gives too.
    """
    network = prepared(model)
    in_evaluation(network)
    parameters.lift(network)
    outputs = [value.name or "" for value in network.ir.graph.outputs]
    chosen = _known(outputs, predictions or outputs)
    shown = _known(outputs, extra_outputs)
    trainable, frozen, buffers = parameters.choose(
        network, train=train, freeze=freeze, connected=_reached(network, chosen)
    )
    trainable, frozen = _in_order(model, trainable), _in_order(model, frozen)
    inputs = tuple(described(value) for value in network.ir.graph.inputs)
    values = parameters.as_inputs(network, [*trainable, *frozen, *buffers])
    given = tuple(described(value) for value in network.ir.graph.outputs)

    evaluation = _copy(network)
    loss, labels = _with_loss(evaluation, attach, chosen)
    learning = _copy(network)
    # The statistics become outputs before the loss is joined, and after it in the list.
    statistics, seed = in_training(learning, batch_norm=batch_norm)
    _with_loss(learning, attach, chosen)
    _keep_outputs(learning, [loss, *shown, *statistics.values()])
    gradient = lowered(differentiate(learning, wrt=trainable, loss=loss))

    manifest = Manifest(
        inputs=inputs, labels=tuple(labels), outputs=given, loss=loss, extra_outputs=tuple(shown),
        parameters=_parameters(trainable, frozen, evaluation),
        buffers=tuple(Kept(**vars(_input(evaluation, name)), output=statistics.get(name, "")) for name in buffers),
        moments=(), seed=seed,
    )  # fmt: skip
    manifest, optimizer, step = _updating(manifest, gradient, rule, loss, shown, statistics)
    training = _accumulating(gradient, manifest)
    for graph in (training, evaluation, *(each for each in (optimizer, step) if each is not None)):
        manifest.put_into(graph.record(history.step("train", options={"optimizer": manifest.optimizer})))
    return Graphs(training, evaluation, optimizer, step, manifest, values)


def _updating(
    manifest: Manifest,
    gradient: Model,
    rule: Rule | None,
    loss: str,
    shown: Sequence[str],
    statistics: Mapping[str, str],
) -> tuple[Manifest, Model | None, Model | None]:
    if rule is None:
        return manifest, None, None
    moments = tuple(moments_of(manifest, rule))
    manifest = replace(
        manifest, optimizer=rule.name, moments=moments, options={**(rule.options or {}), "clip_norm": rule.clip_norm}
    )
    step = _copy(gradient)
    _keep_outputs(step, [loss, *shown, *statistics.values()], unused=False)
    found = {value.name: value for node in step.ir.graph for value in node.outputs}
    gradients = {each.name: found[each.gradient] for each in manifest.trainable}
    append_update(Builder(step.ir.graph, step.opset, prefix="update/"), manifest, rule, gradients, scaled=False)
    return manifest, optimizer_graph(gradient, manifest, rule), step


def _accumulating(gradient: Model, manifest: Manifest) -> Model:
    """Adds each gradient to a buffer that the caller keeps, or starts anew where `lazy_reset_grad` says so."""
    model = _copy(gradient)
    graph = model.ir.graph
    build = Builder(graph, model.opset, prefix="accumulate/")
    reset = new_input(build, manifest.reset, BOOL)
    slopes = {value.name: value for value in graph.outputs}
    for parameter in manifest.trainable:
        slope = slopes[parameter.gradient]
        graph.outputs.remove(slope)
        slope.name = build.names.fresh(f"{parameter.gradient}.step")
        build.names.taken.discard(parameter.gradient)
        buffer = ir.val(f"{parameter.gradient}.buffer", dtype_of(parameter), parameter.sizes)
        graph.inputs.append(buffer)
        given = build.expr(slope)
        total = op("Where", reset, given, build.expr(buffer) + given)
        total.value.name = parameter.gradient
        total.value.shape = ir.Shape(parameter.sizes)
        graph.outputs.append(total.value)
    return model


def _with_loss(model: Model, attach: Attach, predictions: Sequence[str]) -> tuple[str, list[Label]]:
    graph = model.ir.graph
    build = Builder(graph, model.opset, prefix="loss/")
    outputs = {value.name: value for value in graph.outputs}
    loss, labels = attach(build, [build.expr(outputs[name]) for name in predictions])
    if loss.sizes is None or any(size != 1 for size in loss.sizes):
        raise InputError(f"the loss has the shape {loss.shape}, and a loss is one number", hint="reduce it to a scalar")
    if not loss.value.is_graph_output():
        loss.value.name = build.names.fresh(LOSS)
        graph.outputs.insert(0, loss.value)
    passes.RemoveUnusedNodesPass()(model.ir)
    passes.TopologicalSortPass()(model.ir)
    return loss.value.name or "", labels


def _keep_outputs(model: Model, names: Sequence[str], *, unused: bool = True) -> None:
    graph = model.ir.graph
    found = {value.name: value for value in graph.outputs}
    graph.outputs.clear()
    graph.outputs.extend(found[name] for name in dict.fromkeys(names))
    if unused:
        passes.RemoveUnusedNodesPass()(model.ir)


def _reached(model: Model, outputs: Sequence[str]) -> set[str]:
    """The initializers from which a gradient can come back from these outputs."""
    found = {value for value in model.ir.graph.outputs if value.name in outputs}
    for node in reversed(list(model.ir.graph)):
        if node.op_type not in tables().zero and not found.isdisjoint(node.outputs):
            inner = (child for attribute in node.attributes.values() if attribute.type == ir.AttributeType.GRAPH
                     for child in attribute.value.all_nodes())  # fmt: skip
            found.update(value for each in (node, *inner) for value in each.inputs if value is not None)
    return {value.name or "" for value in found if value.is_initializer()}


def _parameters(trainable: Sequence[str], frozen: Sequence[str], model: Model) -> tuple[Parameter, ...]:
    found, offset = [], 0
    for name in (*trainable, *frozen):
        tensor = _input(model, name)
        learns = name in trainable
        found.append(
            Parameter(**vars(tensor), output=f"{name}{OUT}" if learns else "", offset=offset if learns else -1)
        )
        offset += tensor.elements if learns else 0
    return tuple(found)


def _input(model: Model, name: str) -> Tensor:
    return next(described(value) for value in model.ir.graph.inputs if value.name == name)


def _in_order(model: Model, names: Sequence[str]) -> list[str]:
    """The names in the order in which the model itself lists them; preparing it may have moved some."""
    place = {name: index for index, name in enumerate(model.ir.graph.initializers)}
    return sorted(names, key=lambda name: place.get(name, len(place)))


def _known(outputs: Sequence[str], names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in outputs:
            raise NotFound(f"the model has no output '{name}'", hint=f"its outputs: {', '.join(outputs)}")
    return list(names)


def _copy(model: Model) -> Model:
    return Model(model.ir.clone(), path=model.path)
