"""Dropout whose mask is arithmetic on a seed: the same seed gives the same mask on every runtime.

Seeded random operators draw differently on a desktop and in a browser. Here element i of the mask is a 32-bit hash of i, of
the seed and of the number of the Dropout node, all in uint32 with its wrap-around, which every runtime computes alike:

    mix(x) = x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16
    kept(i) = mix(i * 0x9e3779b9 + mix(seed + 0x85ebca6b * (node + 1))) >= ratio * 2^32
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import refined
from sardonyx.signature import Array

UINT32 = ir.DataType.UINT32
_MASK = 0xFFFFFFFF
_SPREAD, _SALT = 0x9E3779B9, 0x85EBCA6B
# (shift right, then multiply): the rounds of a well-tested 32-bit finaliser.
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, None))


def drop(x: Expr, seed: Expr, ratio: float, node: int) -> tuple[Expr, Expr]:
    """`x` with about `ratio` of its elements set to zero and the others scaled up, and the mask of those kept."""
    kept = mask(x, seed, ratio, node)
    factor = op("Where", kept, x._alike(1 / (1 - ratio) if ratio < 1 else 0.0), x._alike(0))
    return x * factor, kept


def mask(x: Expr, seed: Expr, ratio: float, node: int) -> Expr:
    """Which elements are kept, in the shape of `x`."""
    build = x.build
    salt = build.constant(_salt(node), UINT32)
    key = _mix(op("Cast", seed, to=int(UINT32)) + salt)
    positions = op("Range", build.constant(0), op("Size", x), build.constant(1))
    hashed = _mix(op("Cast", positions, to=int(UINT32)) * _SPREAD + key)
    kept = hashed >= build.constant(_threshold(ratio), UINT32)
    return refined(op("Reshape", kept, op("Shape", x), allowzero=1), x)


def mask_in_numpy(shape: tuple[int, ...], seed: int, ratio: float, node: int) -> Array:
    """The same mask without a graph: what a port to another language can be checked against."""
    with np.errstate(over="ignore"):
        key = _mix_in_numpy(np.array([(seed + _salt(node)) & _MASK], np.uint32))
        positions = np.arange(int(np.prod(shape)), dtype=np.uint32)
        hashed = _mix_in_numpy(positions * np.uint32(_SPREAD) + key)
    return (hashed >= np.uint32(_threshold(ratio))).reshape(shape)


def _mix(x: Expr) -> Expr:
    for shift, factor in _ROUNDS:
        x = op("BitwiseXor", x, op("BitShift", x, x.build.constant(shift, UINT32), direction="RIGHT"))
        x = x if factor is None else x * factor
    return x


def _mix_in_numpy(x: Any) -> Any:
    for shift, factor in _ROUNDS:
        x = x ^ (x >> np.uint32(shift))
        x = x if factor is None else x * np.uint32(factor)
    return x


def _salt(node: int) -> int:
    return (_SALT * (node + 1)) & _MASK


def _threshold(ratio: float) -> int:
    return min(round(ratio * 2**32), _MASK)
