"""Where a tournament's time goes, beside the exporters' own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Spent:
    """Seconds by what they were spent on, and the processor time of all of it, which a busy machine does not lengthen."""

    seconds: dict[str, float] = field(default_factory=dict)
    processor: float = 0.0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Adds the time that the block takes."""
        started, computed = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started
            self.processor += time.process_time() - computed

    def to_dict(self) -> dict[str, float]:
        return {**self.seconds, "processor": self.processor}
