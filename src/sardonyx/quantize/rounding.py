"""Weights rounded with an eye on what they are multiplied with: each rounding is made good by the weights still to come.

To the nearest integer every weight is off by up to half a step, and where inputs go up and down together these errors add up in
the result. Rounded one after the other, what a weight is off by is taken over by the rest of its row, by as much as their
inputs move together (the second moments); what is left of the mean goes into the bias. No node costs more for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from sardonyx import deadline
from sardonyx.deadline import Deadline
from sardonyx.quantize.moments import Moments, groups, summed_rows, unsummed_rows
from sardonyx.quantize.steps import PAIR, Step, rounded, spread_over
from sardonyx.signature import Array

# Added to the diagonal of the moments, of its mean: rows that were never seen count for something too.
DAMPING = 0.01
# Columns that are rounded before the rest of the matrix hears of it, in one product.
BLOCK = 64


@dataclass
class Rounding:
    """How the weights of a model are rounded. Without moments of a node: each weight to its nearest integer.

    So are those that are asked for after the limit: to round them together takes longer.
    """

    moments: Mapping[str, Moments]
    limit: Deadline | None = None
    kept: dict[tuple[str, bytes, tuple[int, ...] | None], Array] = field(default_factory=dict)

    def weights(self, node: ir.Node, weight: Array, step: Step, *, biased: bool) -> Array:
        """The integers of the weights. `biased` says that the node has a bias to put the mean of the errors in."""
        found = self.moments.get(node.name or "")
        if found is None:
            return rounded(weight, step)
        key = (node.name or "", step.scale.tobytes(), step.order)
        if key not in self.kept and self.limit is not None and self.limit.passed:
            return rounded(weight, step)
        if key not in self.kept:
            self.kept[key] = self._steps(node, weight, step, found, biased)
        return (self.kept[key] + spread_over(step.zero, weight.ndim, step.axis)).astype(step.zero.dtype)

    def bias(self, node: ir.Node, weight: Array, integers: Array, step: Step, bias: Array, into: Step) -> Array:
        """The bias that makes good what rounding the weights and what goes in does to the mean of the result.

        What goes in may be the same value nearly everywhere, a background, which is then off by the same everywhere.
        """
        found = self.moments.get(node.name or "")
        if found is None:
            return bias
        back = real(integers, step)
        lost = np.einsum("gok,gk->go", _by_group(node, weight - back), found.mean)
        lost -= np.einsum("gok,gk->go", _by_group(node, back), found.moved(lambda x: real(rounded(x, into), into)))
        alpha = node.attributes.get("alpha")  # of a Gemm, whose bias is added after it
        return (bias + (1 if alpha is None else alpha.value) * lost.reshape(-1)).astype(bias.dtype)

    def noise(self, node: ir.Node, weight: Array, integers: Array, step: Step) -> float:
        """The power of what rounding adds to the result, relative to that of the result."""
        errors, found = weight - real(integers, step), self.moments.get(node.name or "")
        if found is None:
            return float((errors**2).sum() / max((weight.astype(np.float64) ** 2).sum(), 1e-30))
        before = _power(_by_group(node, weight), found.second).sum()
        return float(_power(_by_group(node, errors), found.second).sum() / max(before, 1e-30))

    def _steps(self, node: ir.Node, weight: Array, step: Step, found: Moments, biased: bool) -> Array:
        """Steps from zero, of every row whichever is better: rounded together, or each to its nearest."""
        second = found.second - np.einsum("gi,gj->gij", found.mean, found.mean) if biased else found.second
        zero = spread_over(step.zero, weight.ndim, step.axis).astype(np.int32)
        nearest = rounded(weight, step).astype(np.int32) - zero
        scale = np.broadcast_to(step.scale, len(summed_rows(node, weight)))[:, None].astype(np.float64)
        scales = _grouped(scale, groups(node))
        wanted, near = _by_group(node, weight) / scales, _by_group(node, nearest)
        together = _compensated(wanted, second, step.span or 127, paired=step.order is not None)
        better = _power(wanted - together, second) < _power(wanted - near, second)
        steps = np.where(better[..., None], together, near).reshape(scale.shape[0], -1)
        return unsummed_rows(node, steps.astype(np.int32), weight)


def real(integers: Array, step: Step) -> Array:
    """The numbers that the integers stand for."""
    rank = integers.ndim
    return (integers.astype(np.float64) - spread_over(step.zero, rank, step.axis)) * spread_over(
        step.scale, rank, step.axis
    )


def _compensated(wanted: Array, second: Array, span: int, *, paired: bool) -> Array:
    """Whole steps for wanted ones, [groups, results, row]. Pairs of neighbours of one sign stay within what 16 bits hold."""
    size = wanted.shape[-1]
    diagonal = np.einsum("gii->gi", second).mean(axis=-1)[:, None, None]
    damped = second + (DAMPING * diagonal + 1e-12) * np.eye(size)
    # What a unit of error in column i asks of the later columns, divided by its own share.
    spread = np.linalg.cholesky(np.linalg.inv(damped)).transpose(0, 2, 1)
    left, steps = wanted.copy(), np.zeros_like(wanted)
    for start in range(0, size, BLOCK):
        deadline.check()
        end = min(start + BLOCK, size)
        errors = np.zeros((*wanted.shape[:2], end - start))
        for column in range(start, end):
            low, high = _limits(left, steps, column, span) if paired else (-span, span)
            steps[..., column] = np.clip(np.rint(left[..., column]), low, high)
            error = (left[..., column] - steps[..., column]) / spread[:, column, column][:, None]
            left[..., column + 1 : end] -= error[..., None] * spread[:, None, column, column + 1 : end]
            errors[..., column - start] = error
        left[..., end:] -= errors @ spread[:, start:end, end:]
    return steps


def _limits(left: Array, steps: Array, column: int, span: int) -> tuple[Array, Array]:
    """The least and the most steps of a column whose neighbour in the pair is still wanted, or already rounded."""
    if column % 2:
        before = steps[..., column - 1]
        return np.where(before < 0, np.maximum(-PAIR - before, -span), -span), np.where(
            before > 0, np.minimum(PAIR - before, span), span
        )
    if column + 1 == left.shape[-1]:
        return np.full(left.shape[:2], -span), np.full(left.shape[:2], span)
    first, second = left[..., column], left[..., column + 1]
    excess = np.where(first * second > 0, np.maximum(np.abs(first) + np.abs(second) - PAIR, 0), 0)
    most = np.minimum(np.floor(np.maximum(np.abs(first) - excess / 2, 0)), span)
    most = np.where(excess > 0, most, span)
    return -most, most


def _by_group(node: ir.Node, weight: Array) -> Array:
    return _grouped(summed_rows(node, weight), groups(node))


def _grouped(rows: Array, count: int) -> Array:
    return rows.reshape(count, len(rows) // count, -1)


def _power(rows: Array, second: Array) -> Array:
    """[groups, results]: the mean square of what the rows give."""
    return ((rows @ second) * rows).sum(axis=-1)
