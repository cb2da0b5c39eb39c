"""What a model has done since it was loaded: counts and nanoseconds, as Triton's statistics extension names them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Duration:
    """How often, and how long in all."""

    count: int = 0
    ns: int = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self.ns += ns

    def to_dict(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclass(slots=True)
class BatchSize:
    """The runs of one batch size."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)


@dataclass(slots=True)
class Statistics:
    """Kept by the event loop alone, so that no lock is needed."""

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    sizes: dict[int, BatchSize] = field(default_factory=dict)
    refused: int = 0
    rows: int = 0
    runs: int = 0
    last_ms: int = 0

    def ran(self, *, requests: int, rows: int, waited: int, moments: tuple[int, int, int, int]) -> None:
        """One run that ended well. `moments`: taken up, inputs ready, outputs there, outputs shared out."""
        started, ready, computed, split = moments
        self.queue.add(requests, waited)
        self.success.add(requests, waited + (split - started) * requests)
        self.rows += rows
        self.runs += 1
        self.last_ms = time.time_ns() // 1_000_000
        size = self.sizes.get(rows) or self.sizes.setdefault(rows, BatchSize())
        size.compute_input.add(1, ready - started)
        size.compute_infer.add(1, computed - ready)
        size.compute_output.add(1, split - computed)

    def totals(self) -> dict[str, Duration]:
        """Success, failure, waiting, and the three parts of computing."""
        parts = {"success": self.success, "fail": self.fail, "queue": self.queue}
        for name in ("compute_input", "compute_infer", "compute_output"):
            sizes = [getattr(size, name) for size in self.sizes.values()]
            parts[name] = Duration(sum(part.count for part in sizes), sum(part.ns for part in sizes))
        return parts

    def to_dict(self, name: str, version: str) -> dict[str, Any]:
        """The model's entry of the statistics extension."""
        return {
            "name": name,
            "version": version,
            "last_inference": self.last_ms,
            "inference_count": self.rows,
            "execution_count": self.runs,
            "inference_stats": {key: part.to_dict() for key, part in self.totals().items()},
            "batch_stats": [
                {
                    "batch_size": rows,
                    "compute_input": size.compute_input.to_dict(),
                    "compute_infer": size.compute_infer.to_dict(),
                    "compute_output": size.compute_output.to_dict(),
                }
                for rows, size in sorted(self.sizes.items())
            ],
        }
