"""Memory for large bodies, and memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes

import numpy as np

_ALIGNMENT = 64


def trim() -> None:
    """Gives freed memory back to the system, where its C library knows how."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def aligned(length: int, start: int) -> memoryview:
    """Memory for a body whose byte `start` lies as vector instructions like it: the tensors there need no copy."""
    memory = np.empty(length + _ALIGNMENT, np.uint8)
    offset = -(memory.__array_interface__["data"][0] + start) % _ALIGNMENT
    return memory[offset : offset + length].data
