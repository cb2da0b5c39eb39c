"""Arithmetic, powers, logarithms and trigonometry, element by element."""

from __future__ import annotations

import math
from typing import Any

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import cast, ones_like, reshape_like, where


def _power_base(g: Expr, y: Expr, x: Expr, p: Expr) -> Expr:
    exponent = p.constant
    if exponent is not None and exponent.size == 1:
        number = float(exponent.reshape(()))
        if number in (1.0, 2.0, 3.0):
            return {1.0: lambda: g * 1, 2.0: lambda: g * x * 2, 3.0: lambda: g * x * x * 3}[number]()
        return g * number * op("Pow", x, x.build.constant(number - 1, x.dtype))
    p = cast(p, x)
    # 0 ** -1 is infinite, and times a power of 0 not a number, though the derivative of x ** 0 is 0.
    return where(p.equals(0), 0, g * p * x ** where(p.equals(0), 1, p - 1))


def _power_exponent(g: Expr, y: Expr, x: Expr, p: Expr) -> Expr:
    positive = x > 0
    return cast(where(positive, g * y * op("Log", where(positive, x, 1)), 0), p)


def _extreme(g: Expr, y: Expr, *inputs: Expr) -> tuple[Expr, ...]:
    """The gradient goes to the inputs that attain the extreme, in equal parts."""
    if len(inputs) == 1:
        return (g,)
    hits = [cast(x.equals(y), g) for x in inputs]
    share = g / (hits[0] + hits[1] if len(hits) == 2 else op("Sum", *hits))
    return tuple(share * hit for hit in hits)


def _mod_divisor(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
    quotient = a / b
    return -g * op("Sign", quotient) * op("Floor", op("Abs", quotient))


def _clip(g: Expr, y: Expr, x: Expr, low: Expr | None, high: Expr | None) -> tuple[Expr | None, ...]:
    inside = None
    for bound in (x >= low if low is not None else None, x <= high if high is not None else None):
        inside = bound if inside is None or bound is None else inside & bound
    below = None if low is None else _total(where(x < low, g, 0), low)
    above = None if high is None else _total(where(x > high, g, 0), high)
    return g if inside is None else where(inside, g, 0), below, above


def _total(g: Expr, bound: Expr) -> Expr:
    return reshape_like(op("ReduceSum", g, keepdims=0), bound)


def _cumsum(g: Expr, y: Expr, x: Expr, axis: Expr, *, exclusive: int, reverse: int) -> Expr:
    return op("CumSum", g, axis, exclusive=exclusive, reverse=1 - reverse)


def _range(g: Expr, y: Expr, start: Expr, limit: Expr, delta: Expr) -> tuple[Expr | None, ...]:
    steps = op("CumSum", ones_like(g), g.build.constant(0), exclusive=1)
    return op("ReduceSum", g, keepdims=0), None, op("ReduceSum", g * steps, keepdims=0)


BROADCASTS = {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Mean", "Sum"}

RULES: dict[str, Any] = {
    "Add": (lambda g, y, a, b: g, lambda g, y, a, b: g),
    "Sub": (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "Mul": (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "Div": (lambda g, y, a, b: g / b, lambda g, y, a, b: -g * y / b),
    "Pow": (_power_base, _power_exponent),
    "Mod": (lambda g, y, a, b: g, _mod_divisor),
    "Sum": lambda g, y, *inputs: (g,) * len(inputs),
    "Mean": lambda g, y, *inputs: (g / len(inputs),) * len(inputs),
    "Max": _extreme,
    "Min": _extreme,
    "Clip": _clip,
    "Neg": lambda g, y, x: -g,
    "Abs": lambda g, y, x: g * op("Sign", x),
    "Reciprocal": lambda g, y, x: -g * y * y,
    "Sqrt": lambda g, y, x: g * 0.5 / y,
    "Exp": lambda g, y, x: g * y,
    "Log": lambda g, y, x: g / x,
    "Erf": lambda g, y, x: g * op("Exp", -x * x) * (2 / math.sqrt(math.pi)),
    "Sin": lambda g, y, x: g * op("Cos", x),
    "Cos": lambda g, y, x: -g * op("Sin", x),
    "Tan": lambda g, y, x: g * (1 + y * y),
    "Asin": lambda g, y, x: g / op("Sqrt", 1 - x * x),
    "Acos": lambda g, y, x: -g / op("Sqrt", 1 - x * x),
    "Atan": lambda g, y, x: g / (1 + x * x),
    "Sinh": lambda g, y, x: g * op("Cosh", x),
    "Cosh": lambda g, y, x: g * op("Sinh", x),
    "Asinh": lambda g, y, x: g / op("Sqrt", x * x + 1),
    "Acosh": lambda g, y, x: g / op("Sqrt", x * x - 1),
    "Atanh": lambda g, y, x: g / (1 - x * x),
    "CumSum": _cumsum,
    "Range": _range,
    "Identity": lambda g, y, x: g,
    "Cast": lambda g, y, x: cast(g, x),
    "CastLike": lambda g, y, x, target: cast(g, x),
}

ZERO = {
    "And", "Or", "Xor", "Not", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN", "Sign", "Floor",
    "Ceil", "Round", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Constant", "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "BlackmanWindow", "HammingWindow",
    "HannWindow", "MelWeightMatrix", "BitCast",
}  # fmt: skip
