"""report.json as the sections of the page read it: a stage by its name, and what it says about being left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTHING: Mapping[str, Any] = {}


def is_ratio(value: Any) -> bool:
    """Whether a value holds a positive ratio and its interval."""
    return isinstance(value, Mapping) and all(
        type(value.get(key)) in (int, float) and 0 < value[key] < math.inf for key in ("ratio", "low", "high")
    )


@dataclass(frozen=True)
class Story:
    """One report. Fields that a report does not have are empty, so that every report has a page."""

    report: Mapping[str, Any]

    def stage(self, name: str) -> Mapping[str, Any]:
        return next((stage for stage in self.rows(self.report, "stages") if stage.get("stage") == name), NOTHING)

    def ran(self, name: str) -> bool:
        stage = self.stage(name)
        return bool(stage) and stage.get("verdict") != "skipped"

    def why_skipped(self, name: str) -> str:
        stage = self.stage(name)
        if not stage:
            return (
                "The run ended before this stage."
                if not self.report.get("ok", True)
                else "This stage was not part of the run."
            )
        return str(stage.get("reason") or stage.get("summary") or "")

    def rows(self, of: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
        """A list of objects; what is no object is left out."""
        found = of.get(name)
        return [row for row in found if isinstance(row, Mapping)] if isinstance(found, Sequence) else []

    def inner(self, of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """An object inside an object."""
        found = of.get(name)
        return found if isinstance(found, Mapping) else NOTHING

    @property
    def source(self) -> str:
        return str(self.report.get("source") or "The model")

    @property
    def speed(self) -> Mapping[str, Any]:
        """The shipped model against the framework: a ratio with its interval, or nothing."""
        found = self.inner(self.inner(self.report, "metrics"), "speed")
        return found if is_ratio(found) else NOTHING

    @property
    def task(self) -> Mapping[str, Any]:
        return self.inner(self.stage("quantize"), "metric")
