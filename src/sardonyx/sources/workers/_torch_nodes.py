"""Pieces of ONNX graphs that the entries of _torch_symbolics.py are put together from: divisions, casts, types and constants."""

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


def floor_of_integers(g, left, right, kind, positive=False):
    """Rounds toward zero, then takes one off where the rest has another sign than the divisor."""
    wide = arithmetic_type(g, kind)
    if wide != kind:
        left, right = cast_to(g, left, wide), cast_to(g, right, wide)
        return cast_to(g, floor_of_integers(g, left, right, wide, positive), kind)
    quotient = g.op("Div", left, right)
    if kind == "Byte" or (never_negative(left) and never_negative(right)):
        return quotient
    rest, zero = rest_of(g, left, right, quotient), number_node(g, 0, kind)
    known = constant_of(right)
    if positive or (known is not None and bool((known > 0).all())):
        below = g.op("Less", rest, zero)
    elif known is not None and bool((known < 0).all()):
        below = g.op("Greater", rest, zero)
    else:
        below = of_other_sign(g, rest, right, kind)
    return g.op("Sub", quotient, cast_to(g, below, kind))


def floor_of_floats(g, left, right, kind):
    """The steps of PyTorch's own: floor(left / right) alone is off by one where the quotient is rounded up to a whole number."""
    rest, zero, one = g.op("Mod", left, right, fmod_i=1), number_node(g, 0, kind), number_node(g, 1, kind)
    quotient = g.op("Div", g.op("Sub", left, rest), right)
    other = of_other_sign(g, rest, right, kind)
    quotient = g.op("Where", other, g.op("Sub", quotient, one), quotient)
    down = g.op("Floor", quotient)
    near = g.op("Greater", g.op("Sub", quotient, down), number_node(g, 0.5, kind))
    down = g.op("Where", near, g.op("Add", down, one), down)
    return g.op("Where", g.op("Equal", right, zero), g.op("Div", left, right), down)


def floor_of_any(g, left, right):
    """For numbers of unknown type: steps that mean the same for integers and for floats."""
    rest = g.op("Mod", left, right, fmod_i=1)
    quotient = g.op("Div", g.op("Sub", left, rest), right)
    other = g.op("CastLike", of_other_sign(g, rest, right, None), quotient)
    return g.op("Sub", quotient, other)


def arithmetic_type(g, kind):
    """The type to compute in: small integers have arithmetic from opset 14 on."""
    return "Int" if kind in ("Byte", "Char", "Short") and g.opset < SMALL_INTEGERS else kind


def rest_of(g, left, right, quotient):
    return g.op("Sub", left, g.op("Mul", quotient, right))


def of_other_sign(g, rest, divisor, kind):
    zero = number_like(g, rest, 0) if kind is None else number_node(g, 0, kind)
    differ = g.op("Xor", g.op("Less", rest, zero), g.op("Less", divisor, zero))
    return g.op("And", g.op("Not", g.op("Equal", rest, zero)), differ)


def truncated_to(g, value, kind):
    zero = number_like(g, value, 0) if kind is None else number_node(g, 0, kind)
    return g.op("Where", g.op("Less", value, zero), g.op("Ceil", value), g.op("Floor", value))


def true_divide(g, left, right):
    """Integers are divided as floats."""
    left, right, kind = promoted_pair(g, left, right)
    if kind is not None and not is_float(kind):
        wanted = NAMES.get(torch.get_default_dtype(), "Float")
        left, right = cast_to(g, left, wanted), cast_to(g, right, wanted)
    return g.op("Div", left, right)


def never_negative(value, depth=DEPTH):
    """Whether a value is a size, or computed from sizes and other numbers that are not below zero."""
    known = constant_of(value)
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
        return never_negative(inputs[0], depth - 1)
    return operator in ("Add", "Mul", "Div", "Concat") and all(never_negative(item, depth - 1) for item in inputs)


# Powers of two.


def power_of_two(g, count, most):
    """2**count, and whether the count is from 0 to below `most`; outside, the power is that of a count inside."""
    count = cast_to(g, count, "Long")
    inside = g.op("And", g.op("Less", count, number_node(g, most)), g.op("Not", g.op("Less", count, number_node(g, 0))))
    powers = g.op("Constant", value_t=torch.tensor([wrapped_around(2**place) for place in range(most)]))
    return g.op("Gather", powers, g.op("Where", inside, count, number_node(g, 0)), axis_i=0), inside


def wrapped_around(number):
    """A number of 64 bits as int64 holds it."""
    return number - 2**64 if number >= 2**63 else number


# Reductions.


def over_truth(g, value, axes, keep, judge, negate):
    """Counts the items that are true, or those that are not, and judges by the count: it is right for no items, too."""
    truth = value if type_name(value) == "Bool" else cast_to(g, value, "Bool")
    counted = total_of(g, cast_to(g, g.op("Not", truth) if negate else truth, "Long"), axes, keep)
    answer = judge(counted)
    return cast_to(g, answer, "Byte") if type_name(value) == "Byte" else answer


def total_of(g, value, axes, keep):
    known = None if axes is None or is_none(axes) else constant_of(axes)
    kept = 0 if not keep or is_none(keep) else int(constant_of(keep))
    if known is None:
        return g.op("ReduceSum", value, keepdims_i=0)
    return g.op("ReduceSum", value, g.op("Constant", value_t=known.reshape(-1).long()), keepdims_i=kept)


# Numbers and their types.


def promoted_pair(g, left, right):
    """Both numbers in the type of the result, and its name, None where it is not known."""
    kind = result_type(g, left, right)
    return (left, right, None) if kind is None else (cast_to(g, left, kind), cast_to(g, right, kind), kind)


def result_type(g, left, right):
    """The type of the result, by PyTorch's rules; a quotient of integers that is no integer has the integers' type here."""
    names = [type_name(left), type_name(right)]
    if None in names:
        return None
    samples = [sample_of(value, name) for value, name in zip((left, right), names)]
    return NAMES[torch.result_type(*samples)]


def sample_of(value, name):
    """Something that PyTorch promotes as it does the value: a Python number where the value is one."""
    known = constant_of(value)
    if known is not None and known.dim() == 0:
        return known.item()
    dims = value.type().dim() if isinstance(value.type(), torch._C.TensorType) else 0
    return torch.empty([1] * (1 if dims is None else min(dims, 1)), dtype=DTYPES[name][0])


def type_name(value):
    """PyTorch's name of a value's number type, None where it is not known."""
    kind = value.type()
    if isinstance(kind, torch._C.TensorType):
        return kind.scalarType()
    return {"IntType": "Long", "FloatType": "Double", "BoolType": "Bool"}.get(kind.kind())


def is_float(name):
    return DTYPES[name][0].is_floating_point


def cast_to(g, value, name):
    return value if type_name(value) == name else g.op("Cast", value, to_i=DTYPES[name][1])


def number_node(g, number, name="Long"):
    return g.op("Constant", value_t=torch.tensor(number, dtype=DTYPES[name][0]))


def number_like(g, value, number):
    """A constant of the value's type, also where that is not known."""
    name = type_name(value)
    if name is not None:
        return number_node(g, number, name)
    return g.op("CastLike", g.op("Constant", value_t=torch.tensor(float(number))), value)


def cast_like(g, value, other):
    name = type_name(other)
    return g.op("CastLike", value, other) if name is None else cast_to(g, value, name)


def constant_of(value):
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


def is_none(value):
    return value.node().mustBeNone()


def text_of(value):
    return None if is_none(value) else value.node().s("value")


def asked_type(dtype):
    """The name of the type that a dtype argument asks for; None where it asks for none."""
    known = None if dtype is None or is_none(dtype) else constant_of(dtype)
    # PyTorch numbers its types: uint8, int8, int16, int32, int64, float16, float32, float64, …
    order = ("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double")
    return (
        None
        if known is None
        else order[int(known)]
        if int(known) < len(order)
        else {11: "Bool", 15: "BFloat16"}[int(known)]
    )
