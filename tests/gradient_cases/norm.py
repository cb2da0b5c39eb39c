"""Normalisation and Dropout."""

from __future__ import annotations

import numpy as np

from gradient_cases._values import away, functional, normal, torch_op, within
from gradient_certify import Case, case, scalar

CASES: list[Case] = [
    case(
        "BatchNormalization",
        normal(4, 3, 2, 2),
        normal(3),
        normal(3),
        normal(3),
        within(0.5, 2, 3),
        torch=lambda x, s, b, m, v: (
            (x - m[:, None, None]) / (v[:, None, None] + 1e-5).sqrt() * s[:, None, None] + b[:, None, None]
        ),
    ),
    case(
        "BatchNormalization",
        normal(4, 3, 2, 2),
        normal(3),
        normal(3),
        normal(3),
        within(0.5, 2, 3),
        name="training",
        training_mode=1,
        outputs=3,
        of=(0, 1, 2),
        fixed=(),
    ),
    case(
        "BatchNormalization",
        normal(4, 3),
        normal(3),
        normal(3),
        normal(3),
        within(0.5, 2, 3),
        name="training flat",
        training_mode=1,
        outputs=3,
        fixed=(3, 4),
        torch=lambda x, s, b, m, v: functional().batch_norm(x, None, None, s, b, True),
    ),
    # From 512 positions on the sums are matrix products, in single precision.
    case(
        "BatchNormalization",
        normal(2, 2, 16, 32),
        normal(2),
        normal(2),
        normal(2),
        within(0.5, 2, 2),
        name="training large",
        training_mode=1,
        outputs=3,
        fixed=(3, 4),
        dynamic=False,
        second=False,
        torch=lambda x, s, b, m, v: functional().batch_norm(x, None, None, s, b, True),
    ),
    case(
        "LayerNormalization",
        normal(2, 3, 4),
        normal(4),
        normal(4),
        torch=lambda x, s, b: functional().layer_norm(x, (4,), s, b),
    ),
    case(
        "LayerNormalization",
        normal(2, 3, 4),
        normal(3, 4),
        name="two axes",
        axis=1,
        torch=lambda x, s: functional().layer_norm(x, (3, 4), s),
    ),
    case(
        "RMSNormalization",
        normal(2, 3, 4),
        normal(4),
        epsilon=1e-5,
        torch=lambda x, s: functional().rms_norm(x, (4,), s, 1e-5),
    ),
    case(
        "InstanceNormalization",
        normal(2, 3, 4, 2),
        normal(3),
        normal(3),
        torch=lambda x, s, b: functional().instance_norm(x, weight=s, bias=b),
    ),
    case(
        "GroupNormalization",
        normal(2, 4, 3),
        normal(4),
        normal(4),
        num_groups=2,
        stash_type=11,
        torch=lambda x, s, b: functional().group_norm(x, 2, s, b),
    ),
    case("GroupNormalization", normal(2, 4, 3), normal(2), normal(2), name="opset 18", num_groups=2, opset=18),
    case("LpNormalization", away(2, 3), axis=1, p=2, torch=torch_op("normalize")),
    case("LpNormalization", away(2, 3), name="p 1", axis=0, p=1),
    case(
        "LRN",
        normal(2, 5, 3, 2),
        size=3,
        alpha=0.1,
        beta=0.6,
        bias=1.0,
        torch=torch_op("local_response_norm", 3, 0.1, 0.6, 1.0),
    ),
    case("Dropout", normal(3, 4), scalar(0.3, np.float64), scalar(False, np.bool_), name="inference"),
    case("Dropout", normal(3, 4), scalar(0.0, np.float64), np.array(True), name="nothing dropped"),
    case(
        "MeanVarianceNormalization",
        normal(3, 2, 2, 2),
        single=True,
        torch=lambda x: (x - x.mean((0, 2, 3), True)) / (x.var((0, 2, 3), correction=0, keepdim=True).sqrt() + 1e-9),
    ),
]
