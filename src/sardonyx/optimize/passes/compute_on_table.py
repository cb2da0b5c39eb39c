"""Replaces arithmetic on what a Gather looks up with a Gather from a table on which it was done before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from sardonyx.optimize.passes._graph import (
    FLOATS,
    Declined,
    array_of,
    attribute,
    dims,
    is_standard,
    need_alone_or_small,
    opset,
    replace,
    weight,
)
from sardonyx.optimize.passes._rewrite import Rewrite
from sardonyx.signature import Array

ONE_BY_ONE = (
    "Abs", "Add", "Div", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Mul", "Neg", "Pow", "Relu",
    "Selu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh",
)  # fmt: skip
# Elements of a table up to which it is computed on: every step of a chain keeps one until the last has gone.
LARGEST = 1 << 24


@dataclass(frozen=True)
class LookUp:
    """Rows that a Gather takes from a constant table."""

    table: ir.Value
    index: ir.Value
    rows: ir.Value
    values: Array


class ComputeOnTable(Rewrite):
    """Replaces f(Gather(table, index)) with Gather(f(table), index)."""

    order = 57
    operators = ONE_BY_ONE

    def rewrite(self, node: ir.Node) -> str | None:
        found = [_look_up(value) for value in node.inputs]
        taken = [item for item in found if item is not None]
        if not taken or any(item.index is not taken[0].index for item in taken):
            return None
        if any(item is None and array_of(value) is None for item, value in zip(found, node.inputs, strict=True)):
            return None
        table, kind = taken[0].values, taken[0].table.dtype
        if kind not in FLOATS:
            raise Declined(f"it computes in {kind}, not in floats")
        if any(item.values.shape != table.shape for item in taken):
            raise Declined("it takes rows of tables of different shapes")
        if table.size > LARGEST:
            raise Declined(f"its table has {table.size:,} elements")
        for item in taken:
            need_alone_or_small(item.table, item.rows)
        operands = [
            _along_columns(value, table.ndim - 1, taken[0].rows) if item is None else item.values
            for item, value in zip(found, node.inputs, strict=True)
        ]
        computed = _computed(node, operands)
        if computed.dtype != table.dtype:
            raise Declined(f"it gives {computed.dtype}, and the table holds {table.dtype}")
        if computed.shape != table.shape:
            raise Declined("the table would become larger")
        name = f"{taken[0].table.name}_{node.op_type}"
        replace(node, "Gather", [weight(node, name, computed, dtype=kind), taken[0].index], {"axis": 0})
        return f"{node.op_type} is done on the table"


def _look_up(value: ir.Value | None) -> LookUp | None:
    gather = value.producer() if value is not None else None
    if value is None or not is_standard(gather, "Gather") or attribute(gather, "axis", 0) != 0:
        return None
    table, index = gather.inputs
    values = array_of(table)
    return LookUp(table, index, value, values) if index is not None and values is not None else None


def _along_columns(value: ir.Value | None, columns: int, rows: ir.Value) -> Array:
    """The constant as it spreads over a row of the table."""
    constant, shape = array_of(value), dims(rows)
    assert constant is not None, "asked only of constants"
    leading = constant.shape[: max(constant.ndim - columns, 0)]
    if any(size != 1 for size in leading):
        raise Declined("its constant differs from row to row")
    if leading and (shape is None or constant.ndim > len(shape)):
        raise Declined("its constant may add dimensions")
    return constant.reshape(constant.shape[len(leading) :])


def _computed(node: ir.Node, operands: list[Array]) -> Array:
    """What the node makes of these values, by onnx's own evaluator."""
    evaluator = ReferenceEvaluator(ir.to_proto(node), opsets={"": opset(node)})
    names = [value.name for value in node.inputs]
    try:
        with np.errstate(all="ignore"):
            found: Array = evaluator.run(None, dict(zip(names, operands, strict=True)))[0]
    except Exception as error:  # whatever the evaluator lacks, the node stays as it is
        raise Declined(f"onnx's evaluator does not compute it: {type(error).__name__}") from error
    return found
