"""Operators that the exporter behind the routes script and trace writes wrongly, or not at all, written as PyTorch computes them.

PyTorch rounds an integer division down, ONNX rounds it toward zero; PyTorch shifts by any count, adds up small integers in int64
and adds every one of repeated indices. Each entry of SYMBOLICS is used for one export, in place of PyTorch's own.
"""

import contextlib

import torch

from ._torch_nodes import (
    AXES_ARE_INPUTS,
    BITS,
    LARGEST_SHIFT,
    SMALL_INTEGERS,
    arithmetic_type,
    asked_type,
    cast_like,
    cast_to,
    constant_of,
    floor_of_any,
    floor_of_floats,
    floor_of_integers,
    is_float,
    is_none,
    number_like,
    number_node,
    of_other_sign,
    over_truth,
    power_of_two,
    promoted_pair,
    rest_of,
    text_of,
    total_of,
    true_divide,
    truncated_to,
    type_name,
    wrapped_around,
)


@contextlib.contextmanager
def in_pytorchs_way(opset):
    """While the block lasts, exports of this opset use the entries of SYMBOLICS that it has operators for."""
    names = [name for name, (_, oldest) in SYMBOLICS.items() if opset >= oldest]
    for name in names:
        torch.onnx.register_custom_op_symbolic(name, SYMBOLICS[name][0], opset)
    try:
        yield
    finally:
        for name in names:
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def floor_divide(g, left, right):
    """The quotient rounded down."""
    left, right, kind = promoted_pair(g, left, right)
    if kind is None:
        return floor_of_any(g, left, right)
    if is_float(kind):
        return floor_of_floats(g, left, right, kind)
    return floor_of_integers(g, left, right, kind)


def divide(g, left, right, mode=None):
    """torch.div, with a rounding mode or without."""
    word = None if mode is None else text_of(mode)
    if word == "floor":
        return floor_divide(g, left, right)
    if word != "trunc":
        return true_divide(g, left, right)
    left, right, kind = promoted_pair(g, left, right)
    if kind is None or is_float(kind):
        return truncated_to(g, g.op("Div", left, right), kind)
    wide = arithmetic_type(g, kind)
    return cast_to(g, g.op("Div", cast_to(g, left, wide), cast_to(g, right, wide)), kind)


def remainder(g, left, right):
    """What is left of a division rounded down: it has the divisor's sign."""
    left, right, kind = promoted_pair(g, left, right)
    if kind is not None and not is_float(kind):
        return g.op("Mod", left, right, fmod_i=0)
    rest = g.op("Mod", left, right, fmod_i=1)
    return g.op("Where", of_other_sign(g, rest, right, kind), g.op("Add", rest, right), rest)


def fmod(g, left, right):
    """What is left of a division rounded toward zero: it has the dividend's sign."""
    left, right, kind = promoted_pair(g, left, right)
    if kind is None or is_float(kind):
        return g.op("Mod", left, right, fmod_i=1)
    wide = arithmetic_type(g, kind)
    left, right = cast_to(g, left, wide), cast_to(g, right, wide)
    # onnxruntime's Mod with fmod computes int64 by way of double
    return cast_to(g, rest_of(g, left, right, g.op("Div", left, right)), kind)


def right_shift(g, value, count):
    """value // 2**count. A count below zero or beyond the type leaves only the sign."""
    kind = type_name(value) or "Long"
    wide, known = cast_to(g, value, "Long"), constant_of(count)
    most = BITS[kind] - (kind != "Byte")
    negative = cast_to(g, g.op("Less", wide, number_node(g, 0)), "Long")
    if known is not None and known.numel() == 1:
        count = int(known)
        if not 0 <= count < most:
            return cast_to(g, g.op("Neg", negative), kind)
        return cast_to(g, floor_of_integers(g, wide, number_node(g, 2**count), "Long"), kind)
    power, inside = power_of_two(g, count, min(most, LARGEST_SHIFT + 1))
    shifted = floor_of_integers(g, wide, power, "Long", positive=True)
    return cast_to(g, g.op("Where", inside, shifted, g.op("Neg", negative)), kind)


def left_shift(g, value, count):
    """value * 2**count, of which the bits beyond the type are lost; a count below zero or beyond the type gives zero."""
    kind = type_name(value) or "Long"
    wide, known = cast_to(g, value, "Long"), constant_of(count)
    if known is not None and known.numel() == 1:
        count = int(known)
        power = number_node(g, wrapped_around(2**count) if 0 <= count < BITS[kind] else 0)
        return cast_to(g, g.op("Mul", wide, power), kind)
    power, inside = power_of_two(g, count, BITS[kind])
    return cast_to(g, g.op("Mul", wide, g.op("Where", inside, power, number_node(g, 0))), kind)


def clamp(g, value, low=None, high=None):
    """Bounded on one side by Max or Min: onnxruntime's Clip makes infinity the largest number where it has no bound."""
    given = [(name, bound) for name, bound in (("Max", low), ("Min", high)) if bound is not None and not is_none(bound)]
    for _, bound in given:
        value = promoted_pair(g, value, bound)[0]
    bounds = [(name, cast_like(g, bound, value)) for name, bound in given]
    if len(bounds) == 2 and all(known is not None and known.dim() == 0 for known in map(constant_of, (low, high))):
        return g.op("Clip", value, *(bound for _, bound in bounds))
    for name, bound in bounds:
        value = g.op(name, value, bound)
    return value


def clamp_max(g, value, high):
    return clamp(g, value, None, high)


def cumulative_sum(g, value, axis, dtype=None):
    """Running sums; integers are added up in int64 unless another type is asked for."""
    kind = asked_type(dtype) or ("Long" if type_name(value) in (*BITS, "Bool") else None)
    value = value if kind is None else cast_to(g, value, kind)
    narrow = kind in ("Byte", "Char", "Short")  # CumSum does not take these
    total = g.op("CumSum", cast_to(g, value, "Int") if narrow else value, cast_to(g, axis, "Long"))
    return cast_to(g, total, kind) if narrow else total


def count_nonzero(g, value, axes=None):
    other = g.op("Not", g.op("Equal", value, number_like(g, value, 0)))
    return total_of(g, cast_to(g, other, "Long"), axes, False)


def any_of(g, value, axes=None, keep=None):
    return over_truth(g, value, axes, keep, lambda truth: g.op("Greater", truth, number_node(g, 0)), negate=False)


def all_of(g, value, axes=None, keep=None):
    return over_truth(g, value, axes, keep, lambda truth: g.op("Equal", truth, number_node(g, 0)), negate=True)


def bitwise(operator):
    """The operator on integers bit by bit, on truth values as such."""

    def symbolic(g, *values):
        if len(values) == 2:
            first, second, kind = promoted_pair(g, *values)
            values = (first, second)
        else:
            kind = type_name(values[0])
        return g.op(operator if kind == "Bool" else f"Bitwise{operator}", *values)

    return symbolic


def whole(operator):
    """A rounding, which leaves integers as they are."""

    def symbolic(g, value, *_):
        return g.op("Identity", value) if type_name(value) in BITS else g.op(operator, value)

    return symbolic


def truncate(g, value):
    return g.op("Identity", value) if type_name(value) in BITS else truncated_to(g, value, type_name(value))


def difference(g, value, times, axis, before=None, after=None):
    """Each item less the one before it."""
    axis, count = constant_of(axis), constant_of(times)
    parts = [part for part in (before, value, after) if part is not None and not is_none(part)]
    value = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=int(axis))
    ends = g.op("Constant", value_t=torch.tensor([2**62]))
    axes = g.op("Constant", value_t=torch.tensor([int(axis)]))
    bounds = [g.op("Constant", value_t=torch.tensor([bound])) for bound in (0, 1, -1)]
    for _ in range(int(count)):
        later = g.op("Slice", value, bounds[1], ends, axes)
        earlier = g.op("Slice", value, bounds[0], bounds[2], axes)
        value = g.op("Xor" if type_name(value) == "Bool" else "Sub", later, earlier)
    return value


def index_add(g, value, axis, index, source, factor=None):
    """Adds the slices of `source` at the places of `index`, each of them where a place is named twice."""
    axis, factor = int(constant_of(axis)), None if factor is None else constant_of(factor)
    if factor is not None and float(factor) != 1:
        source = g.op("Mul", source, number_like(g, source, factor))
    rank = source.type().dim()
    if rank is None:
        raise RuntimeError("index_add on a tensor of unknown rank has no ONNX form")
    sizes = [-1 if place == axis % rank else 1 for place in range(rank)]
    index = g.op("Reshape", cast_to(g, index, "Long"), g.op("Constant", value_t=torch.tensor(sizes)))
    index = g.op("Expand", index, g.op("Shape", source))
    return g.op("ScatterElements", value, index, source, axis_i=axis, reduction_s="add")


# The operator, its form, and the oldest opset that has what the form needs. In-place forms go by the same name, without the
# underscore at the end, which is why the shifts are spelled as they are.
SYMBOLICS = {
    "aten::floor_divide": (floor_divide, 10),
    "aten::floordiv": (floor_divide, 10),
    "aten::div": (divide, 10),
    "aten::remainder": (remainder, 10),
    "aten::fmod": (fmod, 10),
    "aten::__rshift_": (right_shift, 11),
    "aten::bitwise_right_shift": (right_shift, 11),
    "aten::__lshift_": (left_shift, 11),
    "aten::bitwise_left_shift": (left_shift, 11),
    "aten::clamp": (clamp, SMALL_INTEGERS),
    "aten::clamp_min": (clamp, SMALL_INTEGERS),
    "aten::clamp_max": (clamp_max, SMALL_INTEGERS),
    "aten::cumsum": (cumulative_sum, 11),
    "aten::count_nonzero": (count_nonzero, AXES_ARE_INPUTS),
    "aten::any": (any_of, AXES_ARE_INPUTS),
    "aten::all": (all_of, AXES_ARE_INPUTS),
    "aten::floor": (whole("Floor"), 9),
    "aten::ceil": (whole("Ceil"), 9),
    "aten::trunc": (truncate, 9),
    "aten::diff": (difference, 10),
    "aten::index_add": (index_add, 16),
    "aten::bitwise_or": (bitwise("Or"), 18),
    "aten::__or_": (bitwise("Or"), 18),
    "aten::bitwise_xor": (bitwise("Xor"), 18),
    "aten::__xor_": (bitwise("Xor"), 18),
    "aten::bitwise_not": (bitwise("Not"), 18),
}


# Quotients.
