"""A model for inputs of one size: dimensions that were named become numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.signature import Signature, TensorSpec, dims

Shapes = Mapping[str, int | Sequence[int]]


def fix(model: Model, shapes: Shapes) -> Model:
    """The model with these dimensions fixed: `batch=1`, `x.0=1` or `x=1,3,224,224`. What follows from them is left to infer."""
    sizes = settle(model.signature, shapes)
    for graph in model.ir.graphs():
        for node in graph:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = None
    for value in (*model.ir.graph.inputs, *model.ir.graph.outputs):
        if value.shape is not None:
            value.shape = ir.Shape(
                [
                    dim if isinstance(dim, int) else sizes.get(dim.value or f"{value.name}.{axis}", dim)
                    for axis, dim in enumerate(value.shape)
                ]
            )
    return model


def settle(signature: Signature, shapes: Shapes) -> dict[str, int]:
    """The size of every dimension that the words fix, by its name or its place."""
    sizes: dict[str, int] = {}
    inputs = {spec.name: spec for spec in signature.inputs}
    for name, wanted in shapes.items():
        if name in inputs:
            found = _of_input(inputs[name], wanted)
        elif isinstance(wanted, int) and name in signature.dynamic:
            found = {name: wanted}
        else:
            raise UsageError(
                f"the model has no input and no dynamic dimension '{name}'",
                hint=f"it takes {signature.describe()}; its dynamic dimensions are {', '.join(signature.dynamic) or 'none'}",
            )
        for dim, size in found.items():
            if size < 1 or sizes.setdefault(dim, size) != size:
                raise UsageError(
                    f"the dimension {dim} cannot be {size}", hint="give each dimension one size, 1 or more"
                )
    return sizes


def _of_input(spec: TensorSpec, wanted: int | Sequence[int]) -> dict[str, int]:
    whole = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    shape = spec.shape
    if (
        shape is None
        or len(shape) != len(whole)
        or any(isinstance(dim, int) and dim != size for dim, size in zip(shape, whole, strict=True))
    ):
        shown = "an unknown rank" if shape is None else dims(shape)
        raise UsageError(
            f"{spec.name} cannot have the shape {dims(whole)}: the model gives it {shown}",
            hint="see sardonyx inspect M",
        )
    places = enumerate(zip(shape, whole, strict=True))
    return {dim or f"{spec.name}.{axis}": size for axis, (dim, size) in places if not isinstance(dim, int)}
