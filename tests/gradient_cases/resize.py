"""Resize."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradient_cases._values import functional, normal
from gradient_certify import Case, Const, case


def _interpolate(**settings: Any) -> Any:
    return lambda x: functional().interpolate(x, **settings)


CASES: list[Case] = [
    case(
        "Resize",
        normal(1, 2, 3, 4),
        None,
        Const(1.0, 1.0, 2.0, 2.0, dtype=np.float32),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
        torch=_interpolate(scale_factor=2, mode="nearest"),
    ),
    case(
        "Resize",
        normal(1, 2, 3, 4),
        None,
        None,
        Const(1, 2, 5, 7),
        name="linear",
        mode="linear",
        torch=_interpolate(size=(5, 7), mode="bilinear", align_corners=False),
    ),
    case(
        "Resize",
        normal(1, 2, 4, 4),
        None,
        None,
        Const(1, 2, 2, 6),
        name="corners",
        mode="linear",
        coordinate_transformation_mode="align_corners",
        torch=_interpolate(size=(2, 6), mode="bilinear", align_corners=True),
    ),
    case(
        "Resize",
        normal(1, 1, 4, 5),
        None,
        None,
        Const(1, 1, 7, 8),
        name="cubic",
        mode="cubic",
        torch=_interpolate(size=(7, 8), mode="bicubic", align_corners=False),
    ),
    case(
        "Resize", normal(1, 1, 6, 6), None, Const(0.5, 0.5, dtype=np.float32), name="axes", mode="linear", axes=[2, 3]
    ),
    case("Resize", normal(1, 1, 6), None, Const(1.0, 1.0, 1.5, dtype=np.float32), name="1d", mode="linear"),
]
