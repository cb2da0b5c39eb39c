"""How real numbers become integers: scales and zeros of activations and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sardonyx.signature import Array

# How far the range of weights may shrink, and how far it may grow where large neighbours would have to be cut.
SHRUNK = (1.0, 0.94, 0.88, 0.82, 0.76)
GROWN = (127 / 64, 1.6, 1.25)
# 255 times this fits 16 bits: what two weights of one sign may be together where the CPU adds their products in 16.
PAIR = 128
_INTEGERS = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True)
class Plan:
    """Which nodes compute on integers, and on which.

    `reduce_range` keeps neighbouring weights small: without VNNI their products are added in 16 bits, which saturate.
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
    """How real numbers map to integers: real = scale * (integer - zero), at most `span` steps from zero.

    With an `order` of axes, the result's first and then those that a kernel sums over, two neighbours of one sign are at
    most `PAIR` steps from zero together.
    """

    scale: Array
    zero: Array
    axis: int | None = None
    span: int | None = None
    order: tuple[int, ...] | None = None


def activation_step(low: float, high: float, kind: str) -> Step:
    """The scale and zero of a tensor with this range. Zero itself is always exact, for padding's sake."""
    first, last = _INTEGERS[kind]
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / (last - first)) if high > low else np.float32(1)
    scale = max(scale, np.finfo(np.float32).tiny)
    zero = int(np.clip(np.rint(first - low / scale), first, last))
    return Step(np.asarray(scale, np.float32), np.asarray(zero, kind))


def weight_step(weight: Array, axis: int | None, plan: Plan, order: tuple[int, ...] | None) -> Step:
    """Symmetric around zero for signed weights; unsigned ones sit around the middle. `order` is that of `Step`."""
    axes = None if axis is None else tuple(index for index in range(weight.ndim) if index != axis)
    largest = np.abs(weight).max(axis=axes)
    widest = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    middle = np.full(widest.shape, 0 if plan.weight == "int8" else 128, plan.weight)
    step = Step(widest, middle, axis, 127, order if plan.reduce_range else None)
    return _closest(weight, step, axes)


def _closest(weight: Array, step: Step, axes: tuple[int, ...] | None) -> Step:
    """The scale of each channel by which its weights come back closest: cutting the largest may lose less than it wins."""
    best, least = step.scale, np.full(step.scale.shape, np.inf, np.float32)
    for part in SHRUNK if step.order is None else GROWN + SHRUNK:
        scale = np.maximum(step.scale * np.float32(part), np.finfo(np.float32).tiny)
        wide = spread_over(scale, weight.ndim, step.axis)
        error = ((_steps(weight, replace(step, scale=scale)) * wide - weight) ** 2).sum(axis=axes)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    return replace(step, scale=best)


def rounded(values: Array, step: Step) -> Array:
    """The integers of real values."""
    info = np.iinfo(step.zero.dtype)
    zero = spread_over(step.zero, values.ndim, step.axis).astype(np.float64)
    return np.clip(_steps(values, step) + zero, info.min, info.max).astype(step.zero.dtype)


def _steps(values: Array, step: Step) -> Array:
    """How many steps from zero each value is."""
    steps = np.rint(values / spread_over(step.scale, values.ndim, step.axis))
    if step.span is not None:
        steps = np.clip(steps, -step.span, step.span)
    return steps if step.order is None else _paired(steps, step.order)


def _paired(steps: Array, order: tuple[int, ...]) -> Array:
    """The steps with pairs of neighbours cut, each by half of what they are too much together."""
    turned = steps.transpose(order)
    rows = turned.reshape(len(turned), -1)
    even = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))
    first, second = even[:, 0::2], even[:, 1::2]
    excess = np.where(first * second > 0, np.maximum(np.abs(first) + np.abs(second) - PAIR, 0), 0)
    even[:, 0::2] = first - np.sign(first) * np.ceil(excess / 2)
    even[:, 1::2] = second - np.sign(second) * np.floor(excess / 2)
    return even[:, : rows.shape[1]].reshape(turned.shape).transpose(np.argsort(order))


def spread_over(item: Array, rank: int, axis: int | None) -> Array:
    return item if axis is None else item.reshape([-1 if index == axis else 1 for index in range(rank)])
