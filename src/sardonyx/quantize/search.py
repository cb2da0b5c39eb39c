"""The search: every scheme screened cheaply, the promising ones refined node by node, the best brought before the guard."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sardonyx import progress, registry
from sardonyx.bench.interleave import Turn, measure, speedup, timed
from sardonyx.errors import RuntimeRefused
from sardonyx.quantize import sensitivity
from sardonyx.quantize.candidates import Candidate
from sardonyx.quantize.evaluate import Judge, Reference
from sardonyx.quantize.fusion import unfused
from sardonyx.quantize.guard import ACCURACY, NOT_FUSED, SLOWER, Guard, why_slow
from sardonyx.quantize.paying import losers
from sardonyx.quantize.subject import CALIBRATORS, Subject, Variant
from sardonyx.run.session import Session
from sardonyx.signature import Arrays

SCHEMES = "sardonyx.quantize.schemes"
# When, as a share of the time: building schemes ends, refining ends. Timing takes a share each time, and so does a hearing.
BUILT, REFINED, TIMING, HEARING, SPARING = 0.4, 0.75, 0.12, 0.1, 0.15
# How many variants are refined, and how many candidates the guard hears at most.
CHOSEN, HEARD = 2, 5
# Screening is noisy: what looks this much slower than float is not looked at again.
HOPELESS = 0.97
# A variant that loses this many budgets is not worth saving while another loses less.
RUINED = 20
# Speeds within this factor are alike until the guard looks closer.
ALIKE = 1.08
# What screened this much faster than the best that has passed is heard too: screening and hearing both err.
FASTER = 1.03
# To be sure of the budget is worth this much speed.
SURE = 1.1
# Examples on which calibrators are told apart by how far their outputs are from float's, and the one that takes longest.
CLOSELY, SLOWEST = 32, "entropy"
OUT_OF_TIME = "no time left to try it; give more --time"


@dataclass
class Search:
    """One search over one model. `candidates` holds everything that was tried, `reverted` why nodes stay in float."""

    subject: Subject
    judge: Judge
    screening: Reference
    float_session: Session
    feed: Arrays
    seconds: float
    auto_calibrator: bool = True
    seed: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    reverted: dict[str, dict[str, str]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def run(self, schemes: Sequence[str], guard: Guard) -> Candidate | None:
        """The fastest candidate that passes the guard, or None."""
        if any(name.startswith("static") for name in schemes):
            self.subject.histograms, self.subject.rounding  # noqa: B018  calibration takes what it takes; the clock starts after it
        self.started = time.monotonic()
        with progress.task("schemes", total=len(schemes)) as advance:
            for name in sorted(schemes, key=_rank):
                advance(1, f"scheme {name}")
                self.candidates += self._screened(name)
        self._time(self._loaded())
        self._refine()
        return self._hear(guard)

    def _past(self, share: float) -> bool:
        return time.monotonic() - self.started > share * self.seconds

    def _loaded(self) -> list[Candidate]:
        return [item for item in self.candidates if item.variant is not None]

    def _screened(self, scheme: str) -> list[Candidate]:
        module = registry.load(SCHEMES, scheme)
        refusal = getattr(module, "refusal", lambda _: None)(self.subject)
        if self.candidates and self._past(BUILT):
            refusal = refusal or OUT_OF_TIME
        if refusal:
            return [Candidate(scheme, scheme, reason=refusal)]
        try:
            found = [self._tried(variant) for variant in module.variants(self.subject)]
        except RuntimeRefused as error:
            return [Candidate(scheme, scheme, reason=error.message)]
        return found or [Candidate(scheme, scheme, reason="nothing that this scheme quantises")]

    def _tried(self, variant: Variant) -> Candidate:
        """The variant with its metric on the data of the search, or the reason why it does not run."""
        try:
            session = Session(variant.model, self.subject.settings)
            found = self.screening.answers(session)
            score = self.judge.score_of(found, self.screening, interval=True)
        except RuntimeRefused as error:
            return Candidate(variant.name, variant.scheme, reason=f"does not run: {error.message}")
        size = variant.model.to_proto().ByteSize()
        distance = self.screening.distance(found)
        candidate = Candidate(
            variant.name, variant.scheme, variant, score, size=size, distance=distance, session=session
        )
        if not self.judge.perhaps_within(score):  # the guard has other examples
            candidate.reason = ACCURACY
        return candidate

    def _time(self, items: Sequence[Candidate]) -> None:
        """Times the candidates beside float, all in turn."""
        open_ones = {str(index): item for index, item in enumerate(items) if item.session is not None}
        if not open_ones:
            return
        turns = {"float": self._turn(self.float_session)}
        turns |= {name: self._turn(item.session) for name, item in open_ones.items() if item.session is not None}
        taken = measure(turns, seconds=TIMING * self.seconds, rounds_at_least=8, seed=self.seed, extension=1.0).rounds
        for name, item in open_ones.items():
            item.session = None
            item.ratio = speedup(taken["float"], taken[name])
            if item.ratio.ratio < HOPELESS and not item.reason and item.variant is not None:
                item.reason = why_slow(item.variant, self.subject.vnni)

    def _turn(self, session: Session) -> Turn:
        return timed(lambda: session.run_fitted(self.feed))

    def _refine(self) -> None:
        """Better versions of the most promising static variants: another calibrator, only nodes that pay, fewer nodes."""
        chosen = self._promising()
        fresh: list[Candidate] = []
        for index, item in enumerate(chosen):
            now = time.monotonic()
            left = max(REFINED * self.seconds - (now - self.started), 0.1 * self.seconds)
            fresh += self._better(item, now + left / (len(chosen) - index))[1:]
        self._time(fresh)
        self.candidates += fresh

    def _promising(self) -> list[Candidate]:
        """The fastest static variants, of those that can still be saved."""
        static = [item for item in self._loaded() if item.variant is not None and item.variant.plan is not None]
        fast = [item for item in static if item.ratio is not None and item.ratio.ratio > HOPELESS]
        hopeful = [
            item for item in fast if item.score is not None and item.score.loss <= RUINED * self.judge.budget.amount
        ]
        return sorted(hopeful or fast, key=_speed, reverse=True)[:CHOSEN]

    def _better(self, item: Candidate, end: float) -> list[Candidate]:
        """The candidate and better versions of it."""
        found = [item]
        if self.auto_calibrator:
            now = time.monotonic()
            found += self._other_calibrator(item, now + (end - now) / 2)
        if time.monotonic() < end:
            found += self._only_paying(_last(found), end)
        best = _last(found)
        if self._is_close_to_the_budget(best):
            # The step that saves most gets its share even where everything before it took too long.
            found += self._spared(best, max(end, time.monotonic() + SPARING * self.seconds))
        return found

    def _is_close_to_the_budget(self, item: Candidate) -> bool:
        """Or beyond it: other data may say otherwise than the data of the search."""
        return item.score is not None and item.score.loss > sensitivity.TARGET * self.judge.budget.amount

    def _other_calibrator(self, item: Candidate, end: float) -> list[Candidate]:
        """The same plan with the calibrator that comes closest to float: the metric of a few examples hardly tells."""
        assert item.variant is not None
        assert item.variant.plan is not None
        variants = [item.variant]
        for name in sorted(registry.names(CALIBRATORS), key=lambda name: (name == SLOWEST, name)):
            if name != item.variant.calibrator and time.monotonic() < end:
                model = _own(item.variant).built(item.variant.plan, name)
                variants.append(replace(item.variant, name=f"{item.name}, {name}", model=model, calibrator=name))
        best = min(variants, key=self._distance)
        return [] if best is item.variant else [self._tried(best)]

    def _distance(self, variant: Variant) -> float:
        return sensitivity.distance(variant.model, self.screening.take(CLOSELY), self.subject.settings)

    def _only_paying(self, item: Candidate, end: float) -> list[Candidate]:
        """The plan without nodes that are not fused or are slower than in float."""
        variant = item.variant
        assert variant is not None
        assert variant.plan is not None
        float_only = unfused(variant.model, variant.plan.nodes)
        names = float_only | losers(_own(variant).model, variant, self.feed, self.subject.settings, end=end)
        if not names or names >= variant.plan.nodes:
            return []
        reasons = {name: NOT_FUSED if name in float_only else SLOWER for name in names}
        return [self._shortened(variant, names, reasons, "paying nodes")]

    def _spared(self, item: Candidate, end: float) -> list[Candidate]:
        """The plan without the nodes that cost the metric most."""
        variant = item.variant
        assert variant is not None
        assert variant.plan is not None
        calibrator = variant.calibrator or self.subject.calibrator
        found = sensitivity.spared(_own(variant), variant.plan, calibrator, self.judge, self.screening, end=end)
        if found is None:
            return []
        names = variant.plan.nodes - found.nodes
        reasons = {**self.reverted.get(item.name, {}), **dict.fromkeys(names, ACCURACY)}
        return [self._shortened(variant, names, reasons, "tolerant nodes")]

    def _shortened(self, variant: Variant, names: frozenset[str], reasons: dict[str, str], word: str) -> Candidate:
        assert variant.plan is not None
        plan = variant.plan.without(names)
        name = f"{variant.name}, {word}"
        self.reverted[name] = reasons
        model = _own(variant).built(plan, variant.calibrator)
        return self._tried(replace(variant, name=name, model=model, plan=plan))

    def _hear(self, guard: Guard) -> Candidate | None:
        """Brings candidates before the guard, the fastest first, while one may still be better than the best that passed."""
        ready = [item for item in self._loaded() if not item.reason and item.ratio is not None]
        best: Candidate | None = None
        for item in sorted(ready, key=_worth, reverse=True)[:HEARD]:
            assert item.variant is not None
            if best is not None and _speed(item) < FASTER * self._merit(best):
                continue
            with progress.task(f"guard {item.name}"):
                item.ruling = guard.rule(item.variant, seconds=HEARING * self.seconds)
            if item.ruling.passed and (best is None or self._merit(item) > self._merit(best)):
                best = item
        return best

    def _merit(self, item: Candidate) -> float:
        """How many times faster the guard found it, less where it is not sure that it keeps the budget."""
        return _ruled(item) if item.ruling and self.judge.surely_within(item.ruling.score) else _ruled(item) / SURE


def _own(variant: Variant) -> Subject:
    """The model that the variant's plan is about."""
    assert variant.subject is not None
    return variant.subject


def _last(found: Sequence[Candidate]) -> Candidate:
    """The last one that runs."""
    return [item for item in found if item.variant is not None][-1]


def _rank(scheme: str) -> int:
    return int(getattr(registry.load(SCHEMES, scheme), "RANK", 99))


def _worth(item: Candidate) -> tuple[int, float, float]:
    """The faster first; of those that screening hardly tells apart, the one that comes closest to float or loses least."""
    loss = item.score.loss if item.score is not None else 0.0
    return round(math.log(max(_speed(item), 1e-3)) / math.log(ALIKE)), -item.distance, -loss


def _speed(item: Candidate) -> float:
    return item.ratio.ratio if item.ratio is not None else 0.0


def _ruled(item: Candidate) -> float:
    """How many times faster the guard found it."""
    return item.ruling.speedup.ratio if item.ruling is not None and item.ruling.speedup is not None else 0.0
