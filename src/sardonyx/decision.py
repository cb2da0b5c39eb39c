"""The class that scores speak for."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def decided(outputs: Array) -> Array:
    """The class that the scores speak for: the largest of several, or which side of the middle a single one lies on."""
    if outputs.dtype.kind in "iub" or outputs.ndim == 0:
        return outputs
    if outputs.ndim >= 2 and outputs.shape[-1] > 1:
        return outputs.argmax(axis=-1)
    single = outputs.reshape(len(outputs)) if outputs.ndim == 2 else outputs
    probabilities = single.size > 0 and single.min() >= 0 and single.max() <= 1
    return (single > (0.5 if probabilities else 0)).astype(np.int64)
