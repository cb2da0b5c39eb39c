"""Operators that move elements."""

from __future__ import annotations

import numpy as np

from gradient_cases._values import functional, normal, torch_op
from gradient_certify import Case, Const, case, scalar

CASES: list[Case] = [
    case("Reshape", normal(2, 6), Const(3, -1), torch=lambda x: x.reshape(3, 4)),
    case("Flatten", normal(2, 3, 4), axis=2),
    case("Squeeze", normal(2, 1, 3), Const(1)),
    case("Unsqueeze", normal(2, 3), Const(0, -1)),
    case("Transpose", normal(2, 3, 4), perm=[2, 0, 1], torch=lambda x: x.permute(2, 0, 1)),
    case("Transpose", normal(2, 3, 4), name="reversed"),
    case("Concat", normal(2, 3), normal(2, 1), normal(2, 2), axis=1),
    case("Concat", normal(2, 3), name="one", axis=-1),
    case("Split", normal(6, 2), Const(1, 3, 2), outputs=3, of=(0, 1, 2), axis=0),
    case("Split", normal(2, 6), name="part used", num_outputs=3, outputs=3, of=(1,), axis=1),
    case("Slice", normal(5, 6), Const(1, -4), Const(4, 6), Const(0, 1), torch=lambda x: x[1:4, 2:6]),
    case("Slice", normal(5, 6), Const(1), Const(1000), Const(1), Const(2), name="steps", torch=lambda x: x[:, 1::2]),
    case(
        "Slice", normal(5, 6), Const(-1), Const(-1000), Const(0), Const(-1), name="backwards", torch=lambda x: x.flip(0)
    ),
    case("Slice", normal(5, 6), np.array([1]), np.array([3]), np.array([0]), name="bounds given later"),
    case("Pad", normal(2, 3), Const(1, 0, 0, 2), torch=lambda x: functional().pad(x, (0, 2, 1, 0))),
    case("Pad", normal(4, 5), Const(-1, 2, 0, -1), np.array(0.7), name="crop and value"),
    case("Pad", normal(4, 5), Const(1, 2), None, Const(1), name="axes"),
    *(case("Pad", normal(4, 5), Const(2, 1, 1, 3), name=mode, mode=mode) for mode in ("reflect", "edge", "wrap")),
    case("Tile", normal(2, 3), Const(2, 3), torch=lambda x: x.tile(2, 3)),
    case("Tile", normal(2, 3), np.array([3, 1]), name="repeats given later"),
    case("Expand", normal(3, 1), Const(2, 1, 4), torch=lambda x: x.expand(2, 3, 4)),
    case("Expand", normal(3, 1), np.array([2, 3, 4]), name="shape given later"),
    case("Where", normal(2, 3) > 0, normal(2, 3), normal(3), torch=torch_op("where")),
    case("Trilu", normal(3, 4), torch=torch_op("triu")),
    case("Trilu", normal(2, 3, 4), scalar(1), name="lower", upper=0, torch=torch_op("tril", 1)),
    case("DepthToSpace", normal(2, 8, 2, 3), blocksize=2),
    case("DepthToSpace", normal(2, 8, 2, 3), name="CRD", blocksize=2, mode="CRD", torch=torch_op("pixel_shuffle", 2)),
    case("SpaceToDepth", normal(2, 2, 4, 6), blocksize=2),
    case("ReverseSequence", normal(4, 3), np.array([2, 4, 1]), time_axis=0, batch_axis=1),
]
