"""How real numbers become integers: scales and zeros of activations and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sardonyx.signature import Array

# How far the range of weights may shrink.
SHRUNK = (1.0, 0.94, 0.88, 0.82, 0.76)
_INTEGERS = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True)
class Plan:
    """Which nodes compute on integers, and on which.

    `reduce_range` keeps weights in 7 bits: without VNNI the products of two pairs are added in 16 bits, which saturate.
    """

    nodes: frozenset[str]
    activation: str = "uint8"
    weight: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False

    def without(self, names: frozenset[str] | set[str]) -> Plan:
        return replace(self, nodes=self.nodes - names)


@dataclass(frozen=True)
class Step:
    """How real numbers map to integers: real = scale * (integer - zero), at most `span` steps from zero."""

    scale: Array
    zero: Array
    axis: int | None = None
    span: int | None = None


def activation_step(low: float, high: float, kind: str) -> Step:
    """The scale and zero of a tensor with this range. Zero itself is always exact, for padding's sake."""
    first, last = _INTEGERS[kind]
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / (last - first)) if high > low else np.float32(1)
    scale = max(scale, np.finfo(np.float32).tiny)
    zero = int(np.clip(np.rint(first - low / scale), first, last))
    return Step(np.asarray(scale, np.float32), np.asarray(zero, kind))


def weight_step(weight: Array, axis: int | None, plan: Plan) -> Step:
    """Symmetric around zero for signed weights; unsigned ones sit around the middle."""
    span = 64 if plan.reduce_range else 127
    axes = None if axis is None else tuple(index for index in range(weight.ndim) if index != axis)
    largest = np.abs(weight).max(axis=axes)
    scale = _closest(weight, np.where(largest > 0, largest / span, 1).astype(np.float32), axis, axes, span)
    middle = 0 if plan.weight == "int8" else 128
    return Step(np.maximum(scale, np.finfo(np.float32).tiny), np.full(scale.shape, middle, plan.weight), axis, span)


def _closest(weight: Array, scale: Array, axis: int | None, axes: tuple[int, ...] | None, span: int) -> Array:
    """The scale of each channel, shrunk where clipping its largest weights loses less than the finer steps win."""
    best, least = scale, np.full(scale.shape, np.inf, np.float32)
    for part in SHRUNK:
        wide = spread_over(scale * np.float32(part), weight.ndim, axis)
        error = ((np.clip(np.rint(weight / wide), -span, span) * wide - weight) ** 2).sum(axis=axes)
        best, least = np.where(error < least, scale * np.float32(part), best), np.minimum(error, least)
    return best


def rounded(values: Array, step: Step) -> Array:
    """The integers of real values."""
    info = np.iinfo(step.zero.dtype)
    scale, zero = (spread_over(item, values.ndim, step.axis) for item in (step.scale, step.zero))
    steps = np.rint(values / scale)
    if step.span is not None:
        steps = np.clip(steps, -step.span, step.span)
    return np.clip(steps + zero.astype(np.float64), info.min, info.max).astype(step.zero.dtype)


def spread_over(item: Array, rank: int, axis: int | None) -> Array:
    return item if axis is None else item.reshape([-1 if index == axis else 1 for index in range(rank)])
