"""One route's export, made ready to compare: names and opset as asked, and the dimensions that came out open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import onnx_ir as ir

from sardonyx.convert.inputs import Inputs
from sardonyx.errors import InputError
from sardonyx.model import Model
from sardonyx.report import Finding

Verdict = Literal["agrees", "wrong", "refused"]


@dataclass(frozen=True)
class Candidate:
    """How one route ended."""

    route: str
    verdict: Verdict
    seconds: float
    model: Model | None = None
    max_error: float | None = None
    tolerance: float | None = None
    counterexample: dict[str, Any] | None = field(default=None, repr=False)
    reason: str = ""
    repairs: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def to_dict(self, saved: Path | None) -> dict[str, Any]:
        return {
            "route": self.route, "verdict": self.verdict, "max_error": self.max_error, "tolerance": self.tolerance,
            "counterexample": None if saved is None else str(saved), "reason": self.reason, "seconds": self.seconds,
            "repairs": list(self.repairs),
        }  # fmt: skip


def prepare(
    path: Path, inputs: Inputs, *, opset: int | None, output_names: Sequence[str], frozen: Collection[str] = ()
) -> Model:
    """The exported model with the inputs' names, the outputs' names and the opset that were asked for.

    Inputs in `frozen` are numbers that the exporter took as constants: the model no longer has them.
    """
    model = Model.load(path)
    rename(model.ir.graph.inputs, [spec.name for spec in inputs.signature.inputs if spec.name not in frozen], "inputs")
    if output_names:
        rename(model.ir.graph.outputs, output_names, "outputs")
    _name_dimensions(model, inputs)
    if opset is not None and model.opset < opset:
        upgrade(model, opset)
    elif opset is not None and model.opset > opset:
        raise InputError(
            f"came out at opset {model.opset}, above the {opset} that was asked for", hint=f"use --opset {model.opset}"
        )
    return Model(model.ir)


def upgrade(model: Model, opset: int) -> Model:
    """The model at a newer opset, with every operator rewritten where its meaning changed."""
    import logging

    from onnxscript import version_converter

    logging.getLogger(version_converter.__name__).setLevel(logging.ERROR)  # it announces its fallback
    # Below opset 18 onnxscript only changes the stamp; the fallback is onnx's own converter.
    version_converter.convert_version(model.ir, opset, fallback=True)
    return model


def fixed_dimensions(model: Model, inputs: Inputs) -> list[str]:
    """The dimensions that were asked to be dynamic and came out fixed."""
    shapes = {spec.name: spec.shape for spec in model.signature.inputs}
    return [
        f"'{dim}' of {name} came out fixed at {shape[int(axis)]}"
        for name, axes in inputs.dynamic.items()
        for axis, dim in axes.items()
        if (shape := shapes.get(name)) is not None and int(axis) < len(shape) and isinstance(shape[int(axis)], int)
    ]


def rename(values: Iterable[ir.Value], names: Sequence[str], what: str) -> None:
    """Gives the inputs or outputs of a graph these names, in order."""
    held = list(values)
    if len(held) != len(names):
        raise InputError(
            f"the export has {len(held)} {what} ({', '.join(str(v.name) for v in held)}) and {len(names)} were named "
            f"({', '.join(names)})",
            hint=f"name as many {what} as the model has",
        )
    by_name = {value.name: value for value in held}
    if set(by_name) == set(names):  # an exporter may keep the names but not the order
        return
    for value, name in zip(held, names, strict=True):
        value.name = name


def _name_dimensions(model: Model, inputs: Inputs) -> None:
    """Open dimensions of the inputs get the names that the user gave them; outputs follow."""
    renamed: dict[str, str] = {}
    for value in model.ir.graph.inputs:
        asked = {int(axis): name for axis, name in inputs.dynamic.get(value.name or "", {}).items()}
        dims = list(value.shape or ())
        for axis, name in asked.items():
            if axis < len(dims) and isinstance(dims[axis], ir.SymbolicDim):
                renamed[str(dims[axis].value)] = name
                dims[axis] = ir.SymbolicDim(name)
        value.shape = None if value.shape is None else ir.Shape(dims)
    for value in model.ir.graph.outputs:
        if value.shape is not None:
            value.shape = ir.Shape([_renamed(dim, renamed) for dim in value.shape])


def _renamed(dim: int | ir.SymbolicDim, names: Mapping[str, str]) -> int | ir.SymbolicDim:
    return ir.SymbolicDim(names.get(str(dim.value), dim.value)) if isinstance(dim, ir.SymbolicDim) else dim
