"""Rows and texts around what an estimator says of itself, as probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sardonyx.falsify import features, texts
from sardonyx.falsify.probe import Probe
from sardonyx.signature import Arrays, Signature

# Kinds of rows far from all that an estimator was fitted to.
FAR_AWAY = ("times 1e+06", "times 1e+09", "plus 1e+06", "plus 1e+09")


def estimator_probes(signature: Signature, example: Arrays, description: Mapping[str, Any], seed: int) -> list[Probe]:
    """Leaves, thresholds, categories and words; none where the description names none of them and no input is a text."""
    random = np.random.default_rng(seed)
    found = texts.around(signature, example, description, random)
    if any(description.get(key) for key in ("landmarks", "paths", "categories")):
        found |= features.around(signature, example, description, random)
    # What trees compare is known to the last bit where they see the raw features; behind a scaler rounding decides.
    exact = bool((description.get("paths") or {}).get("exact"))
    return [
        Probe(name, arrays, on_edge=not exact and _at_threshold(name), soft=name.startswith(FAR_AWAY))
        for name, arrays in found.items()
    ]


def _at_threshold(name: str) -> bool:
    return "threshold" in name and "between" not in name
