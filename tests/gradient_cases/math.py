"""Arithmetic, element by element."""

from __future__ import annotations

import numpy as np

from gradient_cases._values import away, normal, torch_op, within
from gradient_certify import Case, case, scalar

CASES: list[Case] = [
    case("Add", normal(2, 3), normal(3), torch=torch_op("add")),
    case("Add", normal(2, 1, 3), normal(4, 1), name="both sides repeat", torch=torch_op("add")),
    case("Sub", normal(2, 3), normal(2, 1), torch=torch_op("sub")),
    case("Mul", normal(2, 3), normal(1, 3), torch=torch_op("mul")),
    case("Mul", normal(2, 3), normal(), name="scalar", torch=torch_op("mul")),
    case("Div", normal(2, 3), within(1, 2, 3), torch=torch_op("div")),
    case("Pow", within(0.5, 2, 2, 3), normal(3), torch=torch_op("pow")),
    case("Pow", normal(2, 3), scalar(2.0, np.float64), name="square", torch=lambda x: x**2),
    case("Pow", normal(2, 3), scalar(3.0, np.float64), name="cube", torch=lambda x: x**3),
    case("Pow", within(0.5, 2, 2, 3), scalar(-1.5, np.float64), name="constant", torch=lambda x: x**-1.5),
    case("Mod", away(2, 3), within(1.2, 1.7, 3), fmod=1, torch=torch_op("fmod")),
    case("Sum", normal(2, 3), normal(3), normal(1, 1), torch=lambda a, b, c: a + b + c),
    case("Mean", normal(2, 3), normal(3), normal(2, 1), torch=lambda a, b, c: (a + b + c) / 3),
    case("Max", normal(2, 3), normal(3), torch=torch_op("maximum")),
    case("Max", normal(2, 3), normal(3), normal(2, 1), name="three"),
    case("Min", normal(2, 3), normal(2, 1), torch=torch_op("minimum")),
    case("Clip", normal(3, 4), scalar(-0.5, np.float64), scalar(0.7, np.float64), torch=torch_op("clamp", -0.5, 0.7)),
    case("Clip", normal(3, 4), np.array(-0.5), np.array(0.7), name="bounds too", torch=torch_op("clamp")),
    case("Clip", normal(3, 4), None, np.array(0.2), name="upper only"),
    case("Neg", normal(3), torch=torch_op("neg")),
    case("Abs", away(3, 3), torch=torch_op("abs")),
    case("Reciprocal", within(0.5, 2, 3), torch=torch_op("reciprocal")),
    case("Sqrt", within(0.5, 2, 3), torch=torch_op("sqrt")),
    case("Exp", normal(3), torch=torch_op("exp")),
    case("Log", within(0.5, 2, 3), torch=torch_op("log")),
    case("Erf", normal(3), torch=torch_op("erf")),
    *(case(op, normal(4), torch=torch_op(op.lower())) for op in ("Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh")),
    case("Tan", within(-1, 1, 4), torch=torch_op("tan")),
    *(case(op, within(-0.8, 0.8, 4), torch=torch_op(op.lower())) for op in ("Asin", "Acos", "Atanh")),
    case("Acosh", within(1.3, 3, 4), torch=torch_op("acosh")),
    case("CumSum", normal(2, 4), scalar(1), torch=torch_op("cumsum", 1)),
    case("CumSum", normal(4, 2), scalar(0), name="exclusive reverse", exclusive=1, reverse=1),
    case("Range", np.array(0.3), np.array(2.25), np.array(0.5), fixed=(1,)),
    case("Identity", normal(2)),
    case("Cast", normal(2), to=11),
    case("CastLike", normal(2), normal(1)),
]
