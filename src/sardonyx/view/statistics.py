"""What the numbers of a weight are like, without showing all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.signature import dtype_name

BINS = 32
# More elements than this are looked at in even steps: the picture is the same, and the page is there sooner.
MOST = 1 << 22
# Weights up to this size are shown whole.
WHOLE = 16


def describe_weight(name: str, tensor: ir.TensorProtocol) -> dict[str, Any]:
    """The weight's name, type, shape and size, its values if they are few, and their statistics if they are numbers."""
    found: dict[str, Any] = {
        "name": name, "dtype": dtype_name(tensor.dtype), "shape": [int(size) for size in tensor.shape],
        "bytes": int(tensor.nbytes),
    }  # fmt: skip
    try:
        array = tensor.numpy()
    except (ValueError, OSError) as error:
        return {**found, "unreadable": str(error)}
    if array.dtype.hasobject or array.dtype.kind in "SU":
        return {**found, "values": [_text(item) for item in array.reshape(-1)[:WHOLE]]}
    if 0 < array.size <= WHOLE:
        found["values"] = array.tolist() if array.dtype.kind in "biuf" else array.astype(np.float64).tolist()
    return {**found, "statistics": statistics(array)} if array.size else found


def statistics(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Least, greatest, mean, standard deviation, share of zeros, counts of bad numbers, and a histogram of the good ones."""
    step = max(1, -(-array.size // MOST))
    values = array.reshape(-1)[::step].astype(np.float64)
    good = values[np.isfinite(values)]
    found: dict[str, Any] = {
        "looked_at": int(values.size), "zeros": float(np.mean(values == 0)), "not_finite": int(values.size - good.size),
    }  # fmt: skip
    if not good.size:
        return found
    low, high = float(good.min()), float(good.max())
    counts, _ = np.histogram(good, BINS, (low, high)) if low < high else (np.array([good.size]), None)
    with np.errstate(over="ignore"):
        return {
            **found, "min": low, "max": high, "mean": float(good.mean()), "std": float(good.std()),
            "histogram": counts.tolist(),
        }  # fmt: skip


def _text(item: Any) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)
