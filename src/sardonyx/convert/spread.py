"""Outputs that are random: two sets of draws are told apart by their mean and their spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.signature import Array
from sardonyx.sources import Failure, Outputs

# Answers to the same inputs by which random outputs are compared.
DRAWS = 48
# Standard errors that two means, and times that two spreads, may be apart by chance: about once in a million.
MEANS_APART, SPREADS_APART = 6.0, 3.0


def spread_fault(theirs: Array, mine: Array) -> str:
    """What tells two sets of draws, one a row, apart; empty where nothing does."""
    if theirs.shape[1:] != mine.shape[1:]:
        return f"the export's has the shape {list(mine.shape[1:])}, not {list(theirs.shape[1:])}"
    spread, own = theirs.std(0), mine.std(0)
    if spread.mean() > 0 and own.mean() == 0:
        return "the export always answers the same: what was drawn for the example is frozen into it"
    error = np.sqrt((spread**2 + own**2) / len(theirs)) + 1e-6 * (np.abs(theirs).max() + 1e-30)
    apart = float((np.abs(theirs.mean(0) - mine.mean(0)) / error).max(initial=0.0))
    if apart > MEANS_APART:
        return f"the mean of the export's differs by {apart:.3g} standard errors"
    ratio = float(own.mean() / spread.mean()) if spread.mean() else 1.0
    if not 1 / SPREADS_APART < ratio < SPREADS_APART:
        return f"the export's spreads {ratio:.3g} times as far"
    return ""


def draws(answers: Sequence[Outputs | Failure], name: str, names: Sequence[str] = ()) -> Array:
    """The draws of one output, one a row. An export's outputs are found by their place."""
    rows = []
    for answer in answers:
        if isinstance(answer, Outputs):
            place = (names or answer.names).index(name)
            rows.append(np.asarray(answer.arrays[place], np.float64).reshape(-1))
    return np.stack(rows) if rows else np.zeros((0, 0))
