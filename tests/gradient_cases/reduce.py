"""Reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradient_cases._values import distinct
from gradient_certify import Case, Const, case

_REDUCE: dict[str, Any] = {
    "ReduceSum": lambda x, d, k: x.sum(d, k),
    "ReduceMean": lambda x, d, k: x.mean(d, k),
    "ReduceMax": lambda x, d, k: x.amax(d, k),
    "ReduceMin": lambda x, d, k: x.amin(d, k),
    "ReduceProd": None,
    "ReduceL1": lambda x, d, k: x.abs().sum(d, k),
    "ReduceL2": lambda x, d, k: (x * x).sum(d, k).sqrt(),
    "ReduceLogSum": lambda x, d, k: x.sum(d, k).log(),
    "ReduceLogSumExp": lambda x, d, k: x.logsumexp(d, k),
    "ReduceSumSquare": lambda x, d, k: (x * x).sum(d, k),
}

CASES: list[Case] = [
    made
    for op, reference in _REDUCE.items()
    for made in (
        case(
            op,
            distinct(2, 3, 4) + 0.2,
            Const(1, -1),
            keepdims=0,
            torch=reference and (lambda x, r=reference: r(x, (1, 2), False)),
        ),
        case(
            op,
            distinct(2, 3, 4) + 0.2,
            Const(0),
            name="keep",
            keepdims=1,
            torch=reference and (lambda x, r=reference: r(x, (0,), True)),
        ),
        case(
            op,
            distinct(2, 3) + 0.2,
            name="all",
            keepdims=0,
            torch=reference and (lambda x, r=reference: r(x, (0, 1), False)),
        ),
        case(op, distinct(2, 3) + 0.2, np.array([1]), name="axes given later", keepdims=0),
        case(
            op,
            distinct(2, 3) + 0.2,
            name="nothing reduced",
            keepdims=0,
            noop_with_empty_axes=1,
            second=op != "ReduceLogSum",
        ),
    )
] + [
    case(
        "ReduceProd",
        np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.5]]),
        Const(1),
        name="zeros",
        keepdims=0,
        second=False,
        torch=lambda x: x.prod(1),
    ),
]
