"""The update of the parameters, appended to the gradients or as a graph of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import onnx_ir as ir

from sardonyx.build import Builder, Expr, op
from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.training import optimizers
from sardonyx.training.manifest import Manifest, Moment
from sardonyx.training.modes import OUT
from sardonyx.training.values import FLOAT, INT64, dtype_of, new_input


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


def moments_of(manifest: Manifest, rule: Rule) -> list[Moment]:
    """What the optimizer remembers of every trainable parameter."""
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


def optimizer_graph(gradient: Model, manifest: Manifest, rule: Rule) -> Model:
    """The update alone: parameters, gradients and moments in, parameters and moments out."""
    opset = gradient.opset
    graph = ir.Graph([], [], nodes=[], opset_imports={"": opset}, name="optimizer")
    model = Model(ir.Model(graph, ir_version=gradient.ir_version))
    gradients = {}
    for parameter in manifest.trainable:
        for name in (parameter.name, parameter.gradient):
            graph.inputs.append(ir.val(name, dtype_of(parameter), parameter.sizes))
        gradients[parameter.name] = graph.inputs[-1]
    append_update(Builder(graph, opset, prefix="update/"), manifest, rule, gradients, scaled=True)
    return model


def append_update(
    build: Builder, manifest: Manifest, rule: Rule, gradients: Mapping[str, ir.Value], *, scaled: bool
) -> None:
    """Appends the update of every trainable parameter."""
    graph = build.graph
    inputs = {value.name: value for value in graph.inputs}
    rate = new_input(build, manifest.learning_rate, FLOAT)
    clock = optimizers.Clock(rate, new_input(build, manifest.step, INT64))
    slopes = {name: build.expr(value) for name, value in gradients.items()}
    factor = _gradient_factor(build, manifest, rule, list(slopes.values()), scaled=scaled)
    remembered: dict[str, list[Moment]] = {}
    for moment in manifest.moments:
        graph.inputs.append(ir.val(moment.name, dtype_of(moment), moment.sizes))
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
        scale = new_input(build, manifest.gradient_scale, FLOAT)
    if rule.clip_norm is None:
        return scale
    squares = [op("ReduceSumSquare", slope, keepdims=0) for slope in slopes]
    norm = op("Sqrt", op("Sum", *squares) if len(squares) > 1 else squares[0])
    norm = norm if scale is None else norm * optimizers._typed(scale, norm)
    factor = op("Min", rule.clip_norm / (norm + 1e-6), norm._alike(1))
    return factor if scale is None else factor * optimizers._typed(scale, factor)
