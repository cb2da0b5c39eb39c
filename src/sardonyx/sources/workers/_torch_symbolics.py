"""Operators that the exporter behind the routes script and trace writes wrongly, or not at all, written as PyTorch computes them.

PyTorch rounds an integer division down, ONNX rounds it toward zero; PyTorch shifts by any count, adds up small integers in int64
and adds every one of repeated indices. Each entry of SYMBOLICS is used for one export, in place of PyTorch's own.
"""

import contextlib

import torch

# PyTorch's names of number types, their dtypes, and ONNX's numbers for them.
DTYPES = {
    "Byte": (torch.uint8, 2), "Char": (torch.int8, 3), "Short": (torch.int16, 5), "Int": (torch.int32, 6),
    "Long": (torch.int64, 7), "Bool": (torch.bool, 9), "Half": (torch.float16, 10), "Float": (torch.float32, 1),
    "Double": (torch.float64, 11), "BFloat16": (torch.bfloat16, 16),
}  # fmt: skip
NAMES = {dtype: name for name, (dtype, _) in DTYPES.items()}
BITS = {"Byte": 8, "Char": 8, "Short": 16, "Int": 32, "Long": 64}
LARGEST_SHIFT = 62  # the largest power of two in int64
AXES_ARE_INPUTS, SMALL_INTEGERS = 13, 14  # the opsets from which reductions and arithmetic have these
DEPTH = 12  # how far back to look for where a size comes from


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
    left, right, kind = _promoted(g, left, right)
    if kind is None:
        return _floor_of_any(g, left, right)
    if _is_float(kind):
        return _floor_of_floats(g, left, right, kind)
    return _floor_of_integers(g, left, right, kind)


def divide(g, left, right, mode=None):
    """torch.div, with a rounding mode or without."""
    word = None if mode is None else _text(mode)
    if word == "floor":
        return floor_divide(g, left, right)
    if word != "trunc":
        return _true_divide(g, left, right)
    left, right, kind = _promoted(g, left, right)
    if kind is None or _is_float(kind):
        return _truncated(g, g.op("Div", left, right), kind)
    wide = _arithmetic(g, kind)
    return _cast(g, g.op("Div", _cast(g, left, wide), _cast(g, right, wide)), kind)


def remainder(g, left, right):
    """What is left of a division rounded down: it has the divisor's sign."""
    left, right, kind = _promoted(g, left, right)
    if kind is not None and not _is_float(kind):
        return g.op("Mod", left, right, fmod_i=0)
    rest = g.op("Mod", left, right, fmod_i=1)
    return g.op("Where", _of_other_sign(g, rest, right, kind), g.op("Add", rest, right), rest)


def fmod(g, left, right):
    """What is left of a division rounded toward zero: it has the dividend's sign."""
    left, right, kind = _promoted(g, left, right)
    if kind is None or _is_float(kind):
        return g.op("Mod", left, right, fmod_i=1)
    wide = _arithmetic(g, kind)
    left, right = _cast(g, left, wide), _cast(g, right, wide)
    # onnxruntime's Mod with fmod computes int64 by way of double
    return _cast(g, _rest(g, left, right, g.op("Div", left, right)), kind)


def right_shift(g, value, count):
    """value // 2**count. A count below zero or beyond the type leaves only the sign."""
    kind = _name(value) or "Long"
    wide, known = _cast(g, value, "Long"), _constant(count)
    most = BITS[kind] - (kind != "Byte")
    negative = _cast(g, g.op("Less", wide, _number(g, 0)), "Long")
    if known is not None and known.numel() == 1:
        count = int(known)
        if not 0 <= count < most:
            return _cast(g, g.op("Neg", negative), kind)
        return _cast(g, _floor_of_integers(g, wide, _number(g, 2**count), "Long"), kind)
    power, inside = _power(g, count, min(most, LARGEST_SHIFT + 1))
    shifted = _floor_of_integers(g, wide, power, "Long", positive=True)
    return _cast(g, g.op("Where", inside, shifted, g.op("Neg", negative)), kind)


def left_shift(g, value, count):
    """value * 2**count, of which the bits beyond the type are lost; a count below zero or beyond the type gives zero."""
    kind = _name(value) or "Long"
    wide, known = _cast(g, value, "Long"), _constant(count)
    if known is not None and known.numel() == 1:
        count = int(known)
        power = _number(g, _wrapped(2**count) if 0 <= count < BITS[kind] else 0)
        return _cast(g, g.op("Mul", wide, power), kind)
    power, inside = _power(g, count, BITS[kind])
    return _cast(g, g.op("Mul", wide, g.op("Where", inside, power, _number(g, 0))), kind)


def clamp(g, value, low=None, high=None):
    """Bounded on one side by Max or Min: onnxruntime's Clip makes infinity the largest number where it has no bound."""
    given = [
        (name, bound) for name, bound in (("Max", low), ("Min", high)) if bound is not None and not _is_none(bound)
    ]
    for _, bound in given:
        value = _promoted(g, value, bound)[0]
    bounds = [(name, _cast_like(g, bound, value)) for name, bound in given]
    if len(bounds) == 2 and all(known is not None and known.dim() == 0 for known in map(_constant, (low, high))):
        return g.op("Clip", value, *(bound for _, bound in bounds))
    for name, bound in bounds:
        value = g.op(name, value, bound)
    return value


def clamp_max(g, value, high):
    return clamp(g, value, None, high)


def cumulative_sum(g, value, axis, dtype=None):
    """Running sums; integers are added up in int64 unless another type is asked for."""
    kind = _asked(dtype) or ("Long" if _name(value) in (*BITS, "Bool") else None)
    value = value if kind is None else _cast(g, value, kind)
    narrow = kind in ("Byte", "Char", "Short")  # CumSum does not take these
    total = g.op("CumSum", _cast(g, value, "Int") if narrow else value, _cast(g, axis, "Long"))
    return _cast(g, total, kind) if narrow else total


def count_nonzero(g, value, axes=None):
    other = g.op("Not", g.op("Equal", value, _like(g, value, 0)))
    return _total(g, _cast(g, other, "Long"), axes, False)


def any_of(g, value, axes=None, keep=None):
    return _over_truth(g, value, axes, keep, lambda truth: g.op("Greater", truth, _number(g, 0)), negate=False)


def all_of(g, value, axes=None, keep=None):
    return _over_truth(g, value, axes, keep, lambda truth: g.op("Equal", truth, _number(g, 0)), negate=True)


def bitwise(operator):
    """The operator on integers bit by bit, on truth values as such."""

    def symbolic(g, *values):
        if len(values) == 2:
            first, second, kind = _promoted(g, *values)
            values = (first, second)
        else:
            kind = _name(values[0])
        return g.op(operator if kind == "Bool" else f"Bitwise{operator}", *values)

    return symbolic


def whole(operator):
    """A rounding, which leaves integers as they are."""

    def symbolic(g, value, *_):
        return g.op("Identity", value) if _name(value) in BITS else g.op(operator, value)

    return symbolic


def truncate(g, value):
    return g.op("Identity", value) if _name(value) in BITS else _truncated(g, value, _name(value))


def difference(g, value, times, axis, before=None, after=None):
    """Each item less the one before it."""
    axis, count = _constant(axis), _constant(times)
    parts = [part for part in (before, value, after) if part is not None and not _is_none(part)]
    value = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=int(axis))
    ends = g.op("Constant", value_t=torch.tensor([2**62]))
    axes = g.op("Constant", value_t=torch.tensor([int(axis)]))
    bounds = [g.op("Constant", value_t=torch.tensor([bound])) for bound in (0, 1, -1)]
    for _ in range(int(count)):
        later = g.op("Slice", value, bounds[1], ends, axes)
        earlier = g.op("Slice", value, bounds[0], bounds[2], axes)
        value = g.op("Xor" if _name(value) == "Bool" else "Sub", later, earlier)
    return value


def index_add(g, value, axis, index, source, factor=None):
    """Adds the slices of `source` at the places of `index`, each of them where a place is named twice."""
    axis, factor = int(_constant(axis)), None if factor is None else _constant(factor)
    if factor is not None and float(factor) != 1:
        source = g.op("Mul", source, _like(g, source, factor))
    rank = source.type().dim()
    if rank is None:
        raise RuntimeError("index_add on a tensor of unknown rank has no ONNX form")
    sizes = [-1 if place == axis % rank else 1 for place in range(rank)]
    index = g.op("Reshape", _cast(g, index, "Long"), g.op("Constant", value_t=torch.tensor(sizes)))
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


def _floor_of_integers(g, left, right, kind, positive=False):
    """Rounds toward zero, then takes one off where the rest has another sign than the divisor."""
    wide = _arithmetic(g, kind)
    if wide != kind:
        left, right = _cast(g, left, wide), _cast(g, right, wide)
        return _cast(g, _floor_of_integers(g, left, right, wide, positive), kind)
    quotient = g.op("Div", left, right)
    if kind == "Byte" or (_never_negative(left) and _never_negative(right)):
        return quotient
    rest, zero = _rest(g, left, right, quotient), _number(g, 0, kind)
    known = _constant(right)
    if positive or (known is not None and bool((known > 0).all())):
        below = g.op("Less", rest, zero)
    elif known is not None and bool((known < 0).all()):
        below = g.op("Greater", rest, zero)
    else:
        below = _of_other_sign(g, rest, right, kind)
    return g.op("Sub", quotient, _cast(g, below, kind))


def _floor_of_floats(g, left, right, kind):
    """The steps of PyTorch's own: floor(left / right) alone is off by one where the quotient is rounded up to a whole number."""
    rest, zero, one = g.op("Mod", left, right, fmod_i=1), _number(g, 0, kind), _number(g, 1, kind)
    quotient = g.op("Div", g.op("Sub", left, rest), right)
    other = _of_other_sign(g, rest, right, kind)
    quotient = g.op("Where", other, g.op("Sub", quotient, one), quotient)
    down = g.op("Floor", quotient)
    near = g.op("Greater", g.op("Sub", quotient, down), _number(g, 0.5, kind))
    down = g.op("Where", near, g.op("Add", down, one), down)
    return g.op("Where", g.op("Equal", right, zero), g.op("Div", left, right), down)


def _floor_of_any(g, left, right):
    """For numbers of unknown type: steps that mean the same for integers and for floats."""
    rest = g.op("Mod", left, right, fmod_i=1)
    quotient = g.op("Div", g.op("Sub", left, rest), right)
    other = g.op("CastLike", _of_other_sign(g, rest, right, None), quotient)
    return g.op("Sub", quotient, other)


def _arithmetic(g, kind):
    """The type to compute in: small integers have arithmetic from opset 14 on."""
    return "Int" if kind in ("Byte", "Char", "Short") and g.opset < SMALL_INTEGERS else kind


def _rest(g, left, right, quotient):
    return g.op("Sub", left, g.op("Mul", quotient, right))


def _of_other_sign(g, rest, divisor, kind):
    zero = _like(g, rest, 0) if kind is None else _number(g, 0, kind)
    differ = g.op("Xor", g.op("Less", rest, zero), g.op("Less", divisor, zero))
    return g.op("And", g.op("Not", g.op("Equal", rest, zero)), differ)


def _truncated(g, value, kind):
    zero = _like(g, value, 0) if kind is None else _number(g, 0, kind)
    return g.op("Where", g.op("Less", value, zero), g.op("Ceil", value), g.op("Floor", value))


def _true_divide(g, left, right):
    """Integers are divided as floats."""
    left, right, kind = _promoted(g, left, right)
    if kind is not None and not _is_float(kind):
        wanted = NAMES.get(torch.get_default_dtype(), "Float")
        left, right = _cast(g, left, wanted), _cast(g, right, wanted)
    return g.op("Div", left, right)


def _never_negative(value, depth=DEPTH):
    """Whether a value is a size, or computed from sizes and other numbers that are not below zero."""
    known = _constant(value)
    if known is not None:
        return bool((known >= 0).all())
    node = value.node()
    operator = node.kind().rpartition("::")[2]
    if operator in ("Shape", "Size"):
        return True
    if depth == 0 or not node.kind().startswith("onnx::"):
        return False
    inputs = list(node.inputs())
    if operator in ("Gather", "Squeeze", "Unsqueeze", "Reshape", "Slice", "Identity", "Cast"):
        return _never_negative(inputs[0], depth - 1)
    return operator in ("Add", "Mul", "Div", "Concat") and all(_never_negative(item, depth - 1) for item in inputs)


# Powers of two.


def _power(g, count, most):
    """2**count, and whether the count is from 0 to below `most`; outside, the power is that of a count inside."""
    count = _cast(g, count, "Long")
    inside = g.op("And", g.op("Less", count, _number(g, most)), g.op("Not", g.op("Less", count, _number(g, 0))))
    powers = g.op("Constant", value_t=torch.tensor([_wrapped(2**place) for place in range(most)]))
    return g.op("Gather", powers, g.op("Where", inside, count, _number(g, 0)), axis_i=0), inside


def _wrapped(number):
    """A number of 64 bits as int64 holds it."""
    return number - 2**64 if number >= 2**63 else number


# Reductions.


def _over_truth(g, value, axes, keep, judge, negate):
    """Counts the items that are true, or those that are not, and judges by the count: it is right for no items, too."""
    truth = value if _name(value) == "Bool" else _cast(g, value, "Bool")
    counted = _total(g, _cast(g, g.op("Not", truth) if negate else truth, "Long"), axes, keep)
    answer = judge(counted)
    return _cast(g, answer, "Byte") if _name(value) == "Byte" else answer


def _total(g, value, axes, keep):
    known = None if axes is None or _is_none(axes) else _constant(axes)
    kept = 0 if not keep or _is_none(keep) else int(_constant(keep))
    if known is None:
        return g.op("ReduceSum", value, keepdims_i=0)
    return g.op("ReduceSum", value, g.op("Constant", value_t=known.reshape(-1).long()), keepdims_i=kept)


# Numbers and their types.


def _promoted(g, left, right):
    """Both numbers in the type of the result, and its name, None where it is not known."""
    kind = _result(g, left, right)
    return (left, right, None) if kind is None else (_cast(g, left, kind), _cast(g, right, kind), kind)


def _result(g, left, right):
    """The type of the result, by PyTorch's rules; a quotient of integers that is no integer has the integers' type here."""
    names = [_name(left), _name(right)]
    if None in names:
        return None
    samples = [_sample(value, name) for value, name in zip((left, right), names)]
    return NAMES[torch.result_type(*samples)]


def _sample(value, name):
    """Something that PyTorch promotes as it does the value: a Python number where the value is one."""
    known = _constant(value)
    if known is not None and known.dim() == 0:
        return known.item()
    dims = value.type().dim() if isinstance(value.type(), torch._C.TensorType) else 0
    return torch.empty([1] * (1 if dims is None else min(dims, 1)), dtype=DTYPES[name][0])


def _name(value):
    """PyTorch's name of a value's number type, None where it is not known."""
    kind = value.type()
    if isinstance(kind, torch._C.TensorType):
        return kind.scalarType()
    return {"IntType": "Long", "FloatType": "Double", "BoolType": "Bool"}.get(kind.kind())


def _is_float(name):
    return DTYPES[name][0].is_floating_point


def _cast(g, value, name):
    return value if _name(value) == name else g.op("Cast", value, to_i=DTYPES[name][1])


def _number(g, number, name="Long"):
    return g.op("Constant", value_t=torch.tensor(number, dtype=DTYPES[name][0]))


def _like(g, value, number):
    """A constant of the value's type, also where that is not known."""
    name = _name(value)
    if name is not None:
        return _number(g, number, name)
    return g.op("CastLike", g.op("Constant", value_t=torch.tensor(float(number))), value)


def _cast_like(g, value, other):
    name = _name(other)
    return g.op("CastLike", value, other) if name is None else _cast(g, value, name)


def _constant(value):
    """The tensor that a value always is; None where it is computed."""
    node = value.node()
    if node.kind() not in ("onnx::Constant", "prim::Constant") or not node.hasAttribute("value"):
        return None
    how = node.kindOf("value")
    if how == "t":
        return node.t("value")
    if how == "is":
        return torch.tensor(list(getattr(node, "is")("value")))
    return torch.tensor(getattr(node, how)("value")) if how in ("i", "f") else None


def _is_none(value):
    return value.node().mustBeNone()


def _text(value):
    return None if _is_none(value) else value.node().s("value")


def _asked(dtype):
    """The name of the type that a dtype argument asks for; None where it asks for none."""
    known = None if dtype is None or _is_none(dtype) else _constant(dtype)
    # PyTorch numbers its types: uint8, int8, int16, int32, int64, float16, float32, float64, …
    order = ("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double")
    return (
        None
        if known is None
        else order[int(known)]
        if int(known) < len(order)
        else {11: "Bool", 15: "BFloat16"}[int(known)]
    )
