"""Which tensors of a model are weights: found, chosen by name, and made inputs of the graph so that a run can change them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx.errors import InputError, NotFound
from sardonyx.model import Model
from sardonyx.signature import Array

# Inputs that hold numbers which steer an operator rather than weights that it learns. -1: every input.
_STEERING = {
    "Resize": (1, 2), "Clip": (1, 2), "Pad": (2,), "Dropout": (1,), "OneHot": (2,), "Range": (-1,), "QuantizeLinear": (1,),
    "DequantizeLinear": (1,), "Upsample": (1,), "RoiAlign": (1,), "NonMaxSuppression": (-1,), "Constant": (-1,),
}  # fmt: skip
_STATISTICS = (3, 4)


@dataclass(frozen=True)
class Weights:
    """The weights of a model by name, in its order, and their values. `buffers` are running statistics."""

    trainable: tuple[str, ...]
    frozen: tuple[str, ...]
    buffers: tuple[str, ...]
    values: dict[str, Array]


def lift(model: Model) -> None:
    """Makes float tensors that hide in Constant nodes initializers like all others."""
    passes.LiftConstantsToInitializersPass(lift_all_constants=False, size_limit=2)(model.ir)
    passes.LiftSubgraphInitializersToMainGraphPass()(model.ir)
    passes.RemoveInitializersFromInputsPass()(model.ir)


def candidates(model: Model) -> tuple[list[str], list[str]]:
    """The initializers that look like weights, and those that hold running statistics."""
    weights, buffers = [], []
    for name, value in model.ir.graph.initializers.items():
        if value.dtype is None or not value.dtype.is_floating_point():
            continue
        uses = list(value.uses())
        if uses and all(use.node.op_type == "BatchNormalization" and use.idx in _STATISTICS for use in uses):
            buffers.append(name)
        elif not all(_steers(use.node.op_type, use.idx) for use in uses) and _large(value, name):
            weights.append(name)
    return weights, buffers


def choose(
    model: Model, *, train: Sequence[str] | None, freeze: Sequence[str], connected: Iterable[str]
) -> tuple[list[str], list[str], list[str]]:
    """Trainable, frozen and statistics. `train` and `freeze` are names or patterns as `encoder.*`; freezing wins."""
    weights, buffers = candidates(model)
    floats = [
        name
        for name, value in model.ir.graph.initializers.items()
        if value.dtype is not None and value.dtype.is_floating_point() and name not in buffers
    ]
    _all_known((*(train or ()), *freeze), [*floats, *buffers])
    reached = set(connected)
    wanted = [name for name in weights if name in reached] if train is None else _matching(floats, train)
    trainable = [name for name in wanted if not _matches(name, freeze)]
    if not trainable:
        raise InputError(
            "no parameter is left to train",
            hint=f"the weights of the model are {', '.join(weights[:6]) or 'none'}; freeze fewer",
        )
    return trainable, [name for name in weights if name not in trainable], buffers


def as_inputs(model: Model, names: Sequence[str]) -> dict[str, Array]:
    """Turns initializers into inputs, after those that are there, and gives their values."""
    values = {}
    for name in names:
        value = model.ir.graph.initializers.pop(name)
        assert value.const_value is not None
        values[name] = np.ascontiguousarray(np.array(value.const_value.numpy()))
        value.shape, value.type = ir.Shape(values[name].shape), ir.TensorType(value.const_value.dtype)
        value.const_value = None
        model.ir.graph.inputs.append(value)
    return values


def _steers(op_type: str, index: int) -> bool:
    places = _STEERING.get(op_type, ())
    return index in places or -1 in places


def _large(value: ir.Value, name: str) -> bool:
    """One lone number is a constant of the formula, unless a framework gave it a parameter's name."""
    size = 1 if value.shape is None else int(np.prod([dim for dim in value.shape if isinstance(dim, int)]))
    dotted = "." in name and not name.startswith(("/", "onnx::", "_"))
    return size > 1 or dotted


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if _matches(name, patterns)]


def _all_known(patterns: Sequence[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not _matching(names, [pattern]):
            raise NotFound(
                f"no parameter is called '{pattern}'", hint=f"the model has {', '.join(names[:8]) or 'none'}"
            )
