"""Gather and scatter."""

from __future__ import annotations

import numpy as np

from gradient_cases._values import distinct, normal
from gradient_certify import Case, Const, case, scalar

CASES: list[Case] = [
    case("Gather", normal(5, 3), np.array([[0, 2], [2, 4]]), torch=lambda x, i: x[i]),
    case("Gather", normal(3, 5, 2), np.array([1, 1, -1]), name="inner axis", axis=1, torch=lambda x, i: x[:, i]),
    case("Gather", normal(3, 5), scalar(2), name="one column", axis=1, torch=lambda x: x[:, 2]),
    case("Gather", normal(3, 5), np.array(2, np.int32), name="one row", torch=lambda x, i: x[i]),
    case("Gather", normal(3, 5, 2), scalar(-2), name="a known row", axis=1, torch=lambda x: x[:, -2]),
    case("GatherND", normal(3, 4, 2), np.array([[0, 1], [2, 3], [0, 1]]), torch=lambda x, i: x[i[:, 0], i[:, 1]]),
    case("GatherND", normal(2, 4, 3), np.array([[1], [3]]), name="batch", batch_dims=1),
    case("GatherElements", normal(3, 4), np.array([[0, 1, 1], [3, 3, 3]]), axis=1, torch=lambda x, i: x.gather(1, i)),
    case("ScatterElements", normal(3, 4), np.array([[0, 2], [1, 3]]), normal(2, 2), axis=1),
    case(
        "ScatterElements", normal(3, 4), np.array([[0, 0], [1, 3]]), normal(2, 2), name="add", axis=1, reduction="add"
    ),
    case(
        "ScatterElements", normal(3, 4), np.array([[0, 0], [1, 3]]), normal(2, 2), name="mul", axis=1, reduction="mul"
    ),
    case(
        "ScatterElements",
        normal(3, 4),
        np.array([[0, 0], [1, 3]]),
        normal(2, 2),
        name="max",
        axis=1,
        reduction="max",
        second=False,
    ),
    case("ScatterND", normal(4, 3), np.array([[1], [3]]), normal(2, 3)),
    case("ScatterND", normal(4, 3), np.array([[1], [1]]), normal(2, 3), name="add", reduction="add"),
    case("ScatterND", normal(4, 3), np.array([[1], [1]]), normal(2, 3), name="mul", reduction="mul"),
    case("ScatterND", normal(4, 3), np.array([[1], [1]]), normal(2, 3), name="min", reduction="min", second=False),
    case("TopK", distinct(3, 5), Const(2), outputs=2, axis=1, torch=lambda x: x.topk(2, 1)[0]),
    case("Compress", normal(3, 4), np.array([True, False, True]), axis=0),
    case("OneHot", np.array([0, 2, 1]), scalar(3), normal(2), axis=-1),
]
