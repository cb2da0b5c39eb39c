"""A network becomes four graphs of standard operators: training, evaluation, optimizer, and all of a step in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx import history
from sardonyx.build import Builder, Expr, op
from sardonyx.errors import InputError, NotFound, UsageError
from sardonyx.gradient.engine import differentiate
from sardonyx.gradient.prepare import prepared
from sardonyx.gradient.tables import tables
from sardonyx.model import Model
from sardonyx.signature import Array
from sardonyx.training import losses, optimizers, parameters
from sardonyx.training.manifest import Kept, Label, Manifest, Moment, Parameter, Tensor
from sardonyx.training.modes import OUT, BatchNorm, in_evaluation, in_training

FLOAT, INT64, BOOL = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL
LOSS = "loss"
# Joins predictions to a loss: gives the loss and the labels that it takes.
Attach = Callable[[Builder, list[Expr]], tuple[Expr, list[Label]]]


@dataclass(frozen=True)
class Rule:
    """How parameters are updated. `groups`: patterns of names, and the options that differ for them, `lr_scale` among them."""

    name: str = "adamw"
    options: Mapping[str, Any] | None = None
    groups: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()
    clip_norm: float | None = None

    def options_for(self, parameter: str) -> dict[str, Any]:
        chosen = optimizers.options_of(optimizers.named(self.name), self.options or {})
        found: dict[str, Any] = {"lr_scale": 1.0, **chosen}
        for patterns, changes in self.groups:
            if any(fnmatchcase(parameter, pattern) for pattern in patterns):
                unknown = sorted(set(changes) - set(found))
                if unknown:
                    raise UsageError(
                        f"{self.name} has no option '{unknown[0]}'", hint=f"its options: {', '.join(found)}"
                    )
                found.update(changes)
        return found


@dataclass(frozen=True)
class Graphs:
    """The graphs, what they are made of, and the values that a run starts from."""

    training: Model
    evaluation: Model
    optimizer: Model | None
    step: Model | None
    manifest: Manifest
    values: dict[str, Array]


def attach_named(name: str, options: Mapping[str, Any] | None = None, label: str | None = None) -> Attach:
    """Joins a loss of the table to the first prediction."""
    loss = losses.named(name)
    chosen = losses.options_of(loss, options or {})

    def attach(build: Builder, predictions: list[Expr]) -> tuple[Expr, list[Label]]:
        dtype, shape = loss.target(predictions[0])
        value = ir.val(build.names.fresh(label or ("labels" if loss.classes else "target")), dtype, shape)
        build.graph.inputs.append(value)
        classes = predictions[0].size(1) if loss.classes else None
        described = Label(**vars(_tensor(value)), classes=classes, ignored=chosen.get("ignore_index"))
        return loss.function(predictions[0], build.expr(value), **chosen), [described]

    return attach


def attach_model(model: Model) -> Attach:
    """Joins a loss that is itself a model."""

    def attach(build: Builder, predictions: list[Expr]) -> tuple[Expr, list[Label]]:
        loss, added = losses.from_model(build, model, predictions)
        return loss, [Label(**vars(_tensor(value))) for value in added]

    return attach


def attach_output() -> Attach:
    """Takes the first prediction for the loss: the model computes it itself."""
    return lambda build, predictions: (predictions[0], [])  # noqa: ARG005


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
    inputs = tuple(_tensor(value) for value in network.ir.graph.inputs)
    values = parameters.as_inputs(network, [*trainable, *frozen, *buffers])
    described = tuple(_tensor(value) for value in network.ir.graph.outputs)

    evaluation = _copy(network)
    loss, labels = _with_loss(evaluation, attach, chosen)
    learning = _copy(network)
    # The statistics become outputs before the loss is joined, and after it in the list.
    statistics, seed = in_training(learning, batch_norm=batch_norm)
    _with_loss(learning, attach, chosen)
    _keep_outputs(learning, [loss, *shown, *statistics.values()])
    gradient = differentiate(learning, wrt=trainable, loss=loss)

    manifest = Manifest(
        inputs=inputs, labels=tuple(labels), outputs=described, loss=loss, extra_outputs=tuple(shown),
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
    moments = tuple(_moments(manifest, rule))
    manifest = replace(
        manifest, optimizer=rule.name, moments=moments, options={**(rule.options or {}), "clip_norm": rule.clip_norm}
    )
    step = _copy(gradient)
    _keep_outputs(step, [loss, *shown, *statistics.values()], unused=False)
    found = {value.name: value for node in step.ir.graph for value in node.outputs}
    gradients = {each.name: found[each.gradient] for each in manifest.trainable}
    _update(Builder(step.ir.graph, step.opset, prefix="update/"), manifest, rule, gradients, scaled=False)
    return manifest, _optimizer(gradient, manifest, rule), step


def _optimizer(gradient: Model, manifest: Manifest, rule: Rule) -> Model:
    """The update alone: parameters, gradients and moments in, parameters and moments out."""
    opset = gradient.opset
    graph = ir.Graph([], [], nodes=[], opset_imports={"": opset}, name="optimizer")
    model = Model(ir.Model(graph, ir_version=gradient.ir_version))
    gradients = {}
    for parameter in manifest.trainable:
        for name in (parameter.name, parameter.gradient):
            graph.inputs.append(ir.val(name, _dtype(parameter), parameter.sizes))
        gradients[parameter.name] = graph.inputs[-1]
    _update(Builder(graph, opset, prefix="update/"), manifest, rule, gradients, scaled=True)
    return model


def _update(build: Builder, manifest: Manifest, rule: Rule, gradients: Mapping[str, ir.Value], *, scaled: bool) -> None:
    """Appends the update of every trainable parameter."""
    graph = build.graph
    inputs = {value.name: value for value in graph.inputs}
    rate = _new_input(build, manifest.learning_rate, FLOAT)
    clock = optimizers.Clock(rate, _new_input(build, manifest.step, INT64))
    slopes = {name: build.expr(value) for name, value in gradients.items()}
    factor = _gradient_factor(build, manifest, rule, list(slopes.values()), scaled=scaled)
    remembered: dict[str, list[Moment]] = {}
    for moment in manifest.moments:
        graph.inputs.append(ir.val(moment.name, _dtype(moment), moment.sizes))
        inputs[moment.name] = graph.inputs[-1]
        remembered.setdefault(moment.parameter, []).append(moment)
    update = optimizers.named(rule.name).update
    for parameter in manifest.trainable:
        own = remembered.get(parameter.name, [])
        slope = slopes[parameter.name]
        slope = slope if factor is None else slope * optimizers._typed(factor, slope)
        state = [build.expr(inputs[moment.name]) for moment in own]
        results = update(build.expr(inputs[parameter.name]), slope, clock, *state, **rule.options_for(parameter.name))
        for kept, result in zip((parameter, *own), results, strict=True):
            result.value.name = kept.output
            result.value.shape = ir.Shape(kept.sizes)
            graph.outputs.append(result.value)


def _gradient_factor(
    build: Builder, manifest: Manifest, rule: Rule, slopes: list[Expr], *, scaled: bool
) -> Expr | None:
    """What every gradient is multiplied by: the scale that the caller gives, and less where their norm is too large."""
    scale = None
    if scaled:
        scale = _new_input(build, manifest.gradient_scale, FLOAT)
    if rule.clip_norm is None:
        return scale
    squares = [op("ReduceSumSquare", slope, keepdims=0) for slope in slopes]
    norm = op("Sqrt", op("Sum", *squares) if len(squares) > 1 else squares[0])
    norm = norm if scale is None else norm * optimizers._typed(scale, norm)
    factor = op("Min", rule.clip_norm / (norm + 1e-6), norm._alike(1))
    return factor if scale is None else factor * optimizers._typed(scale, factor)


def _accumulating(gradient: Model, manifest: Manifest) -> Model:
    """Adds each gradient to a buffer that the caller keeps, or starts anew where `lazy_reset_grad` says so."""
    model = _copy(gradient)
    graph = model.ir.graph
    build = Builder(graph, model.opset, prefix="accumulate/")
    reset = _new_input(build, manifest.reset, BOOL)
    slopes = {value.name: value for value in graph.outputs}
    for parameter in manifest.trainable:
        slope = slopes[parameter.gradient]
        graph.outputs.remove(slope)
        slope.name = build.names.fresh(f"{parameter.gradient}.step")
        build.names.taken.discard(parameter.gradient)
        buffer = ir.val(f"{parameter.gradient}.buffer", _dtype(parameter), parameter.sizes)
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


def _moments(manifest: Manifest, rule: Rule) -> list[Moment]:
    optimizer = optimizers.named(rule.name)
    found = []
    for parameter in manifest.trainable:
        options = rule.options_for(parameter.name)
        for kind in optimizer.remembers(options):
            name = f"{parameter.name}.{kind}"
            found.append(
                Moment(
                    name, parameter.dtype, parameter.shape, f"{name}{OUT}", parameter.name, optimizer.starts_at(options)
                )
            )
    return found


def _new_input(build: Builder, name: str, dtype: ir.DataType) -> Expr:
    if name in build.names.taken:
        raise InputError(f"the model has a value called '{name}', a name that training needs", hint="rename it")
    value = ir.val(build.names.fresh(name), dtype, ())
    build.graph.inputs.append(value)
    return build.expr(value)


def _input(model: Model, name: str) -> Tensor:
    return next(_tensor(value) for value in model.ir.graph.inputs if value.name == name)


def _tensor(value: ir.Value) -> Tensor:
    shape = () if value.shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    assert value.dtype is not None
    return Tensor(value.name or "", str(value.dtype.numpy()), shape)


def _dtype(tensor: Tensor) -> ir.DataType:
    from sardonyx.training.manifest import numpy_dtype

    return ir.DataType.from_numpy(numpy_dtype(tensor))


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
