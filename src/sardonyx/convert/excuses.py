"""Differences that are no fault of an export: ties that rounding decides, and slight ones on inputs that few models expect."""

from __future__ import annotations

import numpy as np

from sardonyx.agreement import Judgement, Tolerance
from sardonyx.falsify import Answered
from sardonyx.signature import Array

# Differences on soft probes below this share of the output's largest number are not worth a finding.
SLIGHT = 1e-5


def ties(scores: Array, rows: Array, allowed: Tolerance) -> bool:
    """Whether the two best classes of every row are closer than rounding can tell; one column stands for two classes."""
    table = np.asarray(scores, np.float64).reshape(scores.shape[0], -1)[rows]
    if table.shape[1] == 1:
        return bool((np.minimum(np.abs(table), np.abs(table - 0.5)) <= 2 * allowed.at(table)).all())
    best = np.sort(table, axis=1)[:, -2:]
    return bool((best[:, 1] - best[:, 0] <= 2 * allowed.at(best[:, 1])).all())


def is_slight(found: Judgement, item: Answered) -> bool:
    """Whether the difference is small beside the output: the rounding of huge numbers is measured on few of them."""
    sizes = {
        name: float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
        for name, array in zip(item.outputs.names, map(np.asarray, item.outputs.arrays), strict=True)
        if array.dtype.kind == "f"
    }
    worst = [output for output in found.outputs if output.verdict == "mismatch"]
    # Another shape or type has no size, and neither has NaN at another place.
    return all(
        output.max_abs is not None and 0 < output.error <= SLIGHT * sizes.get(output.name, 0.0) for output in worst
    )
