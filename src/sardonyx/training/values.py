"""Values of a graph as the manifest describes them, and the other way round."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.build import Builder, Expr
from sardonyx.errors import InputError
from sardonyx.training.manifest import Tensor, numpy_dtype

FLOAT, INT64, BOOL = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL


def new_input(build: Builder, name: str, dtype: ir.DataType) -> Expr:
    """A scalar that every run of the graph is given."""
    if name in build.names.taken:
        raise InputError(f"the model has a value called '{name}', a name that training needs", hint="rename it")
    value = ir.val(build.names.fresh(name), dtype, ())
    build.graph.inputs.append(value)
    return build.expr(value)


def described(value: ir.Value) -> Tensor:
    shape = () if value.shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    assert value.dtype is not None
    return Tensor(value.name or "", str(value.dtype.numpy()), shape)


def dtype_of(tensor: Tensor) -> ir.DataType:
    return ir.DataType.from_numpy(numpy_dtype(tensor))
