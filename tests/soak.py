"""One test, two lengths: short in `make test`, long in `make soak`."""

from __future__ import annotations

import os

LONG = os.environ.get("SARDONYX_SOAK") == "1"


def amount(short: int, long: int) -> int:
    """How much of it to do now."""
    return long if LONG else short
