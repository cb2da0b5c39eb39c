"""Losses over classes."""

from __future__ import annotations

import numpy as np

from gradient_cases._values import functional, ints, normal, torch_op, within
from gradient_certify import Case, case

CASES: list[Case] = [
    case("SoftmaxCrossEntropyLoss", normal(4, 3), ints(3, 4), torch=torch_op("cross_entropy")),
    *(
        case(
            "SoftmaxCrossEntropyLoss",
            normal(4, 3),
            ints(3, 4),
            name=r,
            reduction=r,
            torch=torch_op("cross_entropy", reduction=r),
        )
        for r in ("sum", "none")
    ),
    case(
        "SoftmaxCrossEntropyLoss",
        normal(4, 3),
        np.array([0, 2, -1, 1]),
        within(0.5, 2, 3),
        name="weights and ignored",
        ignore_index=-1,
        fixed=(2,),
        torch=lambda x, t, w: functional().cross_entropy(x, t, w, ignore_index=-1),
    ),
    case("SoftmaxCrossEntropyLoss", normal(2, 3, 4), ints(3, 2, 4), name="spatial", outputs=2, of=(0, 1)),
    case(
        "SoftmaxCrossEntropyLoss", normal(4, 3), np.array([0, 2, 5, 1]), name="ignored", ignore_index=5, reduction="sum"
    ),
    case("NegativeLogLikelihoodLoss", normal(4, 3), ints(3, 4), torch=torch_op("nll_loss")),
    case(
        "NegativeLogLikelihoodLoss",
        normal(2, 3, 4),
        ints(3, 2, 4),
        within(0.5, 2, 3),
        name="weights",
        fixed=(2,),
        torch=torch_op("nll_loss"),
    ),
    case("NegativeLogLikelihoodLoss", normal(4, 3), ints(3, 4), name="none", reduction="none"),
]
