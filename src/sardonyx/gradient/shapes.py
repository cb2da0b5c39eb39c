"""What the rules need of shapes: sums that undo a broadcast, zeros and reshapes like another value, known or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from sardonyx.build import Dimension, Expr, Operand, op, ops
from sardonyx.errors import Internal

INT64 = ir.DataType.INT64


def shape_of(x: Expr) -> Expr:
    """The shape as a value: a constant where it is known."""
    return x.build.constant(list(x.sizes)) if x.sizes is not None else op("Shape", x)


def size_of(x: Expr, axis: int) -> Expr:
    """One size, as a vector of one."""
    axis %= x.rank
    known = x.size(axis)
    return x.build.constant([known]) if known is not None else op("Shape", x, start=axis, end=axis + 1)


def join_sizes(parts: Sequence[Expr | int], like: Expr) -> Expr:
    """A shape from vectors of sizes and plain numbers."""
    vectors = [part if isinstance(part, Expr) else like.build.constant([part]) for part in parts]
    known = [vector.constant for vector in vectors]
    if all(values is not None for values in known):
        return like.build.constant(np.concatenate([values for values in known if values is not None]))
    return op("Concat", *vectors, axis=0)


def count_of(x: Expr, axes: Sequence[int] | None, like: Expr) -> Expr | float:
    """How many elements lie along the axes (all by default): a number where it is known, else a value of `like`'s type."""
    chosen = range(x.rank) if axes is None else [axis % x.rank for axis in axes]
    known = [x.size(axis) for axis in chosen]
    if all(size is not None for size in known):
        return float(np.prod([size for size in known if size is not None], dtype=np.int64))
    if axes is None:
        return cast(op("Size", x), like)
    sizes = op("Gather", op("Shape", x), list(chosen), axis=0)
    return cast(op("ReduceProd", sizes, keepdims=0), like)


def cast(x: Expr, like: Expr) -> Expr:
    return x if x.dtype == like.dtype else op("Cast", x, to=int(like.dtype))


def number(x: Expr, value: float) -> Expr:
    """A scalar constant of the same type."""
    return x.build.constant(value, x.dtype)


def where(condition: Expr, yes: Operand, no: Operand) -> Expr:
    like = yes if isinstance(yes, Expr) else no
    assert isinstance(like, Expr)
    return op("Where", condition, *(item if isinstance(item, Expr) else like._alike(item) for item in (yes, no)))


def full(shape: Expr, value: float, dtype: ir.DataType) -> Expr:
    return op("ConstantOfShape", shape, value=ir.tensor(np.array([value], dtype.numpy()), dtype=dtype))


def zeros_like(x: Expr) -> Expr:
    return refined(full(shape_of(x), 0, x.dtype), x)


def ones_like(x: Expr) -> Expr:
    return refined(full(shape_of(x), 1, x.dtype), x)


def refined(g: Expr, x: Expr) -> Expr:
    """`g`, which has the shape of `x`, told so: inference loses sizes that the engine knows to be equal."""
    mine, other = g.shape, x.shape
    if other is not None and mine != other:
        if mine is not None and not _agree(mine, other):
            raise Internal(
                f"a gradient of shape {mine} for {x.value.name}, which has {other}",
                hint="report this model: a rule is wrong",
            )
        pairs = zip(mine or [None] * len(other), other, strict=True)
        better = [a if isinstance(a, int) or b is None else b for a, b in pairs]
        g.value.shape = ir.Shape(better)
    return g


def _agree(mine: tuple[Dimension, ...], other: tuple[Dimension, ...]) -> bool:
    return len(mine) == len(other) and all(
        a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in zip(mine, other, strict=True)
    )


def same_shape(a: Expr, b: Expr) -> bool:
    """Whether the shapes are equal beyond doubt."""
    return a.shape is not None and a.shape == b.shape and None not in a.shape


def reshape(x: Expr, sizes: Expr | Sequence[int]) -> Expr:
    return op("Reshape", x, sizes)


def reshape_like(g: Expr, x: Expr) -> Expr:
    """`g` in the shape of `x`, which holds as many elements."""
    if same_shape(g, x):
        return g
    if x.shape is not None and sum(not isinstance(size, int) for size in x.shape) == 1 and 0 not in x.shape:
        return refined(op("Reshape", g, [size if isinstance(size, int) else -1 for size in x.shape]), x)
    return refined(op("Reshape", g, shape_of(x), allowzero=1), x)


def expand_like(g: Expr, x: Expr) -> Expr:
    return g if same_shape(g, x) else refined(op("Expand", g, shape_of(x)), x)


def sum_to(g: Expr, x: Expr) -> Expr:
    """Undoes a broadcast: the sum of `g` over every axis along which `x` was repeated."""
    if same_shape(g, x):
        return g
    repeated = _repeated(g, x)
    if repeated is None:
        return _sum_at_run_time(g, x)
    leading, ones = repeated
    if not leading and not ones:
        return g
    if not ones:
        return op("ReduceSum", g, leading, keepdims=0)
    summed = op("ReduceSum", g, [*leading, *ones], keepdims=1)
    return op("Squeeze", summed, leading) if leading else summed


def _repeated(g: Expr, x: Expr) -> tuple[list[int], list[int]] | None:
    """The axes that `x` lacks and those where it is 1, or None where only the run can tell."""
    if g.shape is None or x.shape is None:
        return None
    extra = len(g.shape) - len(x.shape)
    pairs = list(enumerate(zip(g.shape[extra:], x.shape, strict=True), extra))
    if any(_undecided(large, small) for _, (large, small) in pairs):
        return None
    return list(range(extra)), [axis for axis, (large, small) in pairs if small == 1 and large != 1]


def _undecided(large: Dimension, small: Dimension) -> bool:
    if isinstance(small, int):
        return False
    return small is None or large != small


def _sum_at_run_time(g: Expr, x: Expr) -> Expr:
    target, given = op("Shape", x), op("Shape", g)
    ones = op("Expand", [1], op("Sub", op("Shape", given), op("Shape", target))) if _may_lack_axes(g, x) else None
    aligned = op("Concat", ones, target, axis=0) if ones is not None else target
    axes = op("Reshape", op("NonZero", ~aligned.equals(given)), [-1])
    return op("Reshape", op("ReduceSum", g, axes, keepdims=1, noop_with_empty_axes=1), target, allowzero=1)


def _may_lack_axes(g: Expr, x: Expr) -> bool:
    return g.shape is None or x.shape is None or len(g.shape) != len(x.shape)


def swap_last(x: Expr) -> Expr:
    """The transpose of the last two axes."""
    order = list(range(x.rank))
    order[-1], order[-2] = order[-2], order[-1]
    return op("Transpose", x, perm=order)


def transpose(x: Expr, order: Sequence[int]) -> Expr:
    return x if list(order) == list(range(len(order))) else op("Transpose", x, perm=list(order))


def iota_like(x: Expr) -> Expr:
    """The position of every element of `x`, counted along the last axis first, in the shape of `x`."""
    if x.sizes is not None:
        return x.build.constant(np.arange(int(np.prod(x.sizes, dtype=np.int64))).reshape(x.sizes))
    build = x.build
    return op("Reshape", op("Range", build.constant(0), op("Size", x), build.constant(1)), op("Shape", x), allowzero=1)


def scatter_add(g: Expr, positions: Expr, x: Expr) -> Expr:
    """Zeros like `x`, with every element of `g` added at its position. The adjoint of any way of picking elements."""
    flat = full(op("Reshape", op("Size", x), [1]), 0, x.dtype)
    summed = op("ScatterND", flat, reshape(positions, [-1, 1]), reshape(g, [-1]), reduction="add")
    return op("Reshape", summed, shape_of(x), allowzero=1)


def split(x: Expr, sizes: Sequence[Expr], axis: int) -> list[Expr]:
    """The pieces of `x` with these sizes along the axis."""
    if len(sizes) == 1:
        return [x]
    return ops(len(sizes), "Split", x, join_sizes(list(sizes), x), axis=axis)


def stretch(vector: Expr, rank: int, axis: int = 1) -> Expr:
    """A vector as a tensor of `rank` axes that broadcasts along all but one: a bias per channel, by default."""
    axes = [index for index in range(rank) if index != axis % rank]
    return op("Unsqueeze", vector, axes) if axes else vector
