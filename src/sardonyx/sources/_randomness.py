"""The random numbers of this process, left as they were by work on a live model."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def same_randomness() -> Iterator[None]:
    """Puts the generators of Python, numpy and torch back to where they stood."""
    python, numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    drawn = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(drawn)
