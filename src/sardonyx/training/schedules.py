"""Learning rates over time: a schedule gives the factor of the rate from how much of the run is done, 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Callable

from sardonyx.errors import UsageError

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,  # noqa: ARG005
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "step": lambda done: 0.1 ** math.floor(3 * min(done, 0.999999)),
}


def rate(name: str, base: float, step: int, total: int, warmup: int = 0) -> float:
    """The learning rate of a step, counted from 0: a straight climb over the warm-up, and then the schedule."""
    if name not in SCHEDULES:
        raise UsageError(f"there is no schedule '{name}'", hint=f"choose one of {', '.join(SCHEDULES)}")
    if step < warmup:
        return base * (step + 1) / warmup
    return base * SCHEDULES[name](min(1.0, (step - warmup) / max(1, total - warmup)))
