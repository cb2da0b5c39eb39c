"""Pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradient_cases._values import away, distinct, functional, normal, torch_op
from gradient_certify import Case, Const, case


def _max_pool(*args: Any, **settings: Any) -> Any:
    return lambda x: getattr(functional(), f"max_pool{x.ndim - 2}d")(x, *args, **settings)


def _average_pool(*args: Any, **settings: Any) -> Any:
    return lambda x: getattr(functional(), f"avg_pool{x.ndim - 2}d")(x, *args, **settings)


CASES: list[Case] = [
    case("MaxPool", distinct(2, 2, 4, 6), kernel_shape=[2, 2], strides=[2, 2], torch=_max_pool(2)),
    case(
        "MaxPool", distinct(2, 2, 5, 7), name="last left out", kernel_shape=[2, 2], strides=[2, 2], torch=_max_pool(2)
    ),
    case(
        "MaxPool",
        distinct(2, 2, 6, 6),
        name="overlap",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_max_pool(3, 2, 1),
    ),
    case("MaxPool", distinct(2, 2, 6), name="1d", kernel_shape=[3], torch=_max_pool(3, 1)),
    case("MaxPool", distinct(1, 1, 4, 4, 4), name="3d", kernel_shape=[2, 2, 2], strides=[2, 2, 2], torch=_max_pool(2)),
    case(
        "MaxPool",
        distinct(2, 1, 7, 7),
        name="dilation",
        kernel_shape=[2, 2],
        dilations=[2, 2],
        torch=_max_pool(2, 1, 0, 2),
    ),
    case(
        "MaxPool",
        distinct(2, 2, 6, 6),
        name="ceil",
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        torch=_max_pool(3, 2, 0, 1, True),
    ),
    case("MaxPool", distinct(2, 2, 5, 6), name="same", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    case(
        "MaxPool",
        np.zeros((1, 1, 4, 4)),
        name="ties",
        kernel_shape=[3, 3],
        torch=_max_pool(3, 1),
        second=False,
        smooth=False,
    ),
    case("AveragePool", normal(2, 2, 4, 6), kernel_shape=[2, 2], strides=[2, 2], torch=_average_pool(2)),
    case(
        "AveragePool",
        normal(2, 2, 6, 5),
        name="overlap",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_average_pool(3, 2, 1, count_include_pad=False),
    ),
    case(
        "AveragePool",
        normal(2, 2, 6, 5),
        name="pads count",
        kernel_shape=[3, 3],
        strides=[2, 1],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        torch=_average_pool(3, (2, 1), 1),
    ),
    case(
        "AveragePool",
        normal(2, 2, 6, 7),
        name="ceil",
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        torch=_average_pool(3, 2, 0, True),
    ),
    case("AveragePool", normal(2, 2, 5, 6), name="same", kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    case("AveragePool", normal(2, 2, 7), name="1d", kernel_shape=[3], strides=[2], torch=_average_pool(3, 2)),
    case("LpPool", away(2, 2, 5, 5), kernel_shape=[2, 2], strides=[1, 2], p=2),
    case("LpPool", away(2, 2, 5, 5), name="p 3", kernel_shape=[2, 2], p=3),
    case("GlobalAveragePool", normal(2, 3, 4, 2), torch=lambda x: x.mean((2, 3), True)),
    case("GlobalMaxPool", distinct(2, 3, 4, 2), torch=torch_op("adaptive_max_pool2d", 1)),
    case("GlobalLpPool", away(2, 3, 4, 2), p=2, opset=18),
    case("MaxUnpool", normal(1, 1, 2, 2), np.array([[[[1, 3], [8, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
    case("Col2Im", normal(2, 2 * 4, 9), Const(4, 4), Const(2, 2)),
    case("Col2Im", normal(2, 2 * 4, 9), Const(5, 5), Const(2, 2), name="strides", strides=[2, 2], pads=[1, 0, 0, 1]),
]
