"""Arrays in another type, where every value survives the change."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def lossless(array: Array, name: str, wanted: np.dtype[Any]) -> Array:
    """The array in the type that ONNX calls `name` and numpy `wanted`; `ValueError` where a value would not survive.

    Floats may be rounded, but not overflow: numpy writes float64 where nobody asked for it. Integers must be equal.
    """
    if name == "string":
        return _strings(array)
    if array.dtype == wanted:
        return array
    if _is_float(array.dtype) and _is_float(wanted):
        with np.errstate(over="ignore"):
            cast = array.astype(wanted)
        survived = np.array_equal(np.isfinite(cast), np.isfinite(array))
    elif _is_integer(wanted) and (_is_integer(array.dtype) or array.dtype == bool):
        cast = array.astype(wanted)
        survived = np.array_equal(cast, array)
    else:
        raise ValueError(f"type {array.dtype}, the model takes {name}")
    if not survived:
        raise ValueError(f"values of {array.dtype} that do not fit {name}")
    return cast


def _strings(array: Array) -> Array:
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "OUT":
        raise ValueError(f"type {array.dtype}, the model takes string")
    strings = array.astype(object)
    wrong = next((item for item in strings.flat if not isinstance(item, str)), None)
    if wrong is not None:
        raise ValueError(f"an item of type {type(wrong).__name__}, the model takes string")
    return strings


# The types of ml_dtypes (bfloat16, int4, …) are known to numpy by name alone.
def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or "float" in dtype.name


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")
