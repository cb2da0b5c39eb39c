"""Models that onnxruntime 1.31 gets wrong with its graph optimiser and right without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sardonyx.model import Model
from sardonyx.signature import Arrays

HEAD = '<ir_version: 10, opset_import: ["": 18]> g '
# MatmulTransposeFusion makes one operator of both, and reads the vector by the wrong dimension.
VECTOR = HEAD + "(float[3,2] w, float[3] x) => (float[2] y) { t = Transpose<perm = [1, 0]>(w) y = MatMul(t, x) }"
# What it means, in a form that no fusion touches.
RIGHT = HEAD + "(float[3,2] w, float[3] x) => (float[2] y) { y = MatMul(x, w) }"
# MatMulScaleFusion divides by zero while the session is opened, which then fails.
SCALE = HEAD + "(double[n,2] x, double[2,2] w) => (double[n,2] y) <double z = {0}> { m = MatMul(x, w) y = Div(m, z) }"

# The same fault behind a product with constant weights, row by row.
_WEIGHTS = ",".join(f"{(i * 7 % 11) / 5 - 1:.1f}" for i in range(64))
ROWS = (
    HEAD
    + f"(float[n,8] x) => (float[n,4] y) <float[8,8] w = {{{_WEIGHTS}}}, int64[3] s = {{0, 2, 4}}, float[2] v = {{1, -3}}> "
    "{ h = MatMul(x, w) r = Reshape(h, s) t = Transpose<perm = [0, 2, 1]>(r) y = MatMul(t, v) }"
)

INPUTS: Arrays = {"w": np.arange(6, dtype=np.float32).reshape(3, 2), "x": np.array([1, 2, 3], np.float32)}
ANSWER = [16.0, 22.0]


def save(folder: Path, text: str = VECTOR) -> Path:
    return Model.from_text(text).save(folder / "faulty.onnx")
