"""The same numbers for every test of this folder, whichever tests ran before it in the same process."""

from __future__ import annotations

import numpy as np
import pytest

SEED = 5


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """A fresh `RANDOM` for the test, if its file has one."""
    if hasattr(request.module, "RANDOM"):
        request.module.RANDOM.bit_generator.state = np.random.default_rng(SEED).bit_generator.state
