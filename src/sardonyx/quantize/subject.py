"""What schemes work on: the prepared model, the ranges of its tensors, and the machine it shall be fast on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from sardonyx import deadline, machine, registry
from sardonyx.deadline import Deadline
from sardonyx.model import Model
from sardonyx.quantize import qdq
from sardonyx.quantize.calibrate import Histograms, Walk, histograms
from sardonyx.quantize.moments import Moments, moments
from sardonyx.quantize.outliers import Apart, apart
from sardonyx.quantize.qdq import Range
from sardonyx.quantize.rounding import Rounding
from sardonyx.quantize.steps import Plan
from sardonyx.run.session import Settings
from sardonyx.samples import Batch

CALIBRATORS = "sardonyx.quantize.calibrators"
# A mask adds the lowest float there is to what shall not count. No integers hold that and a score beside it.
UNBOUNDED = 1e6
# Of the time that is left, so much may be spent on histograms, on moments, on rounding weights together, on outliers.
CALIBRATING, MOMENTS, ROUNDING, PARTING = 0.25, 0.2, 0.25, 0.1


@dataclass
class Subject:
    """The model as schemes see it. Histograms are taken once, when the first scheme asks for ranges: of all examples, or of as
    many as a share of what is left of the time allows.

    `narrow` are products that stay in float: they multiply what no integers of the others' scale can hold.
    """

    model: Model
    calibration: Iterable[Batch]
    settings: Settings
    vnni: bool = field(default_factory=machine.has_vnni)
    calibrator: str = "minmax"
    kept_ranges: dict[str, dict[str, Range]] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    limit: Deadline | None = None
    # Examples that the histograms are of.
    calibrated: int = 0

    @cached_property
    def histograms(self) -> Histograms:
        walk = Walk(self.calibration, self._share(CALIBRATING))
        found = histograms(self.model, qdq.watched(self.model), walk, self.settings)
        self.calibrated = walk.examples
        return found

    @cached_property
    def rounding(self) -> Rounding:
        """With moments where there is time to take them: half of what they may take is for walking the examples."""
        taking, walking = self._share(MOMENTS), self._share(MOMENTS / 2)

        def found() -> dict[str, Moments]:
            return moments(self.model, self.calibration, self.settings, limit=walking)

        return Rounding(found() if taking is None else taking.attempt(found, {}), self._share(ROUNDING))

    def _share(self, fraction: float) -> Deadline | None:
        return None if self.limit is None else self.limit.share(fraction)

    @cached_property
    def apart(self) -> Subject | None:
        """The same model with outliers multiplied apart, where there are any and there is time to look for them."""
        limit = self._share(PARTING)

        def looked() -> Apart | None:
            return apart(self.model, self.calibration, self.settings)

        found = looked() if limit is None else limit.attempt(looked, None)
        if found is None:
            return None
        return replace(self, model=found.model, kept_ranges={}, narrow=found.products, calibrated=0)

    def ranges(self, calibrator: str | None = None) -> dict[str, Range]:
        """The range of every watched tensor by a calibrator. Tensors without a value, or with masks in them, have none."""
        name = calibrator or self.calibrator
        if name not in self.kept_ranges:
            limits, seen = registry.load(CALIBRATORS, name).limits, dict[str, Range]()
            for key, found in self.histograms.items():
                deadline.check()
                if found.total:
                    seen[key] = limits(found)
            ranges = seen | qdq.constant_ranges(self.model)
            self.kept_ranges[name] = {key: span for key, span in ranges.items() if max(map(abs, span)) < UNBOUNDED}
        return self.kept_ranges[name]

    def built(self, plan: Plan, calibrator: str | None = None) -> Model:
        """The model with the nodes of the plan on integers."""
        return qdq.with_qdq(self.model, plan, self.ranges(calibrator), self.rounding)


@dataclass(frozen=True)
class Variant:
    """One way to quantise a model. Where nodes can be left in float one by one it has a plan, of the nodes of `subject`."""

    name: str
    scheme: str
    model: Model
    plan: Plan | None = None
    calibrator: str | None = None
    subject: Subject | None = None
