"""Replaces a product of one-hot rows and a table with a Gather from the table."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.optimize.passes._graph import (
    Declined,
    array_of,
    before,
    dims,
    is_standard,
    need_alone_or_small,
    need_array,
    opset,
    replace,
    weight,
)
from sardonyx.optimize.passes._rewrite import Rewrite

INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)


class LookUpOneHot(Rewrite):
    """Replaces Cast(Equal(index, [0, 1, 2, ...])) @ table with Gather(table, index)."""

    order = 56
    operators = ("MatMul",)

    def rewrite(self, node: ir.Node) -> str | None:
        compared = _compared(node.inputs[0])
        if compared is None:
            return None
        index, count = compared
        table = need_array(node.inputs[1], "its table")
        if table.ndim != 2 or len(table) != count or not np.all(np.isfinite(table)):
            raise Declined("its table is no matrix of finite numbers with a row for each index")
        if opset(node) < 13:
            raise Declined("Clip takes integers since opset 12, and Squeeze its axes as an input since opset 13")
        need_alone_or_small(node.inputs[1])
        rows = weight(node, f"{node.inputs[1].name}_rows", np.concatenate([table, np.zeros_like(table[:1])]))
        replace(node, "Gather", [rows, _bounded(node, index, count)], {"axis": 0})
        return f"looks up one of {count} rows"


def _compared(value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """The indices, with a last axis of one, and how many numbers each is compared with, from 0 on; None for anything else."""
    cast = value.producer() if value is not None else None
    equal = cast.inputs[0].producer() if is_standard(cast, "Cast") and cast.inputs[0] is not None else None
    if not is_standard(equal, "Equal"):
        return None
    for index, numbers in (equal.inputs, tuple(reversed(equal.inputs))):
        steps = array_of(numbers)
        if index is None or index.dtype not in INTEGERS or steps is None or not steps.ndim or not steps.size:
            continue
        counted = steps.size == steps.shape[-1] and np.array_equal(steps.reshape(-1), np.arange(steps.size))
        if counted and _rank(index) >= steps.ndim:
            return index, steps.size
    return None


def _rank(index: ir.Value) -> int:
    """The dimensions of indices that lie along no last axis of their own; 0 where they do, or nobody knows."""
    shape = dims(_unspread(index)[0])
    return len(shape) if shape and shape[-1] == 1 else 0


def _unspread(index: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """What an Expand repeats, and the shape that it repeats it to."""
    maker = index.producer()
    if is_standard(maker, "Expand") and maker.inputs[0] is not None:
        return maker.inputs[0], maker.inputs[1]
    return index, None


def _bounded(node: ir.Node, index: ir.Value, count: int) -> ir.Value:
    """The indices without their last axis. Those that equal no number, below or above, all mean the row of zeros at the end."""
    source, shape = _unspread(index)

    def constant(*values: int) -> ir.Value:
        return weight(node, f"{node.outputs[0].name}_at", np.array(values, np.int64))

    found = before(node, "Squeeze", [source, constant(-1)])
    if shape is not None:
        leading = before(node, "Slice", [shape, constant(0), constant(-1), constant(0)])
        found = before(node, "Expand", [found, leading])
    kind = source.dtype.numpy()
    ends = [weight(node, f"{node.outputs[0].name}_end", np.array(end, kind)) for end in (-1, count)]
    return before(node, "Clip", [found, *ends])
