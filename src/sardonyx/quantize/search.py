"""The search: every scheme screened cheaply, the promising ones refined node by node, the best brought before the guard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sardonyx import progress, registry
from sardonyx.bench.interleave import Turn, least_seconds, measure, speedup, timed
from sardonyx.deadline import OUT_OF_TIME, Deadline, OutOfTime
from sardonyx.errors import RuntimeRefused
from sardonyx.measuring import Watch
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
# When, as a share of the time after calibration: schemes are built, timed, the best are refined, timed again, all are heard.
BUILT, TIMED, REFINED, TIMED_AGAIN, HEARD_ALL = 0.45, 0.55, 0.72, 0.78, 0.96
# Of the time, so much is worth timing all candidates in, and one before the guard. Of what is left a hearing takes this at most.
TIMING, HEARING, PART = 0.12, 0.12, 0.6
# Of what is left when it begins, calibration may take this, whatever it does not do.
CALIBRATED = 0.4
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


@dataclass
class Search:
    """One search over one model. `candidates` holds everything that was tried, `reverted` why nodes stay in float.

    `limit` is that of the whole verb, and timing takes shares of the seconds `measuring`. `watch` sees how busy the machine
    is meanwhile.
    """

    subject: Subject
    judge: Judge
    screening: Reference
    float_session: Session
    feed: Arrays
    limit: Deadline
    measuring: float
    auto_calibrator: bool = True
    seed: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    reverted: dict[str, dict[str, str]] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        self._rest = self.limit.share(1.0)

    def run(self, schemes: Sequence[str], guard: Guard) -> Candidate | None:
        """The fastest candidate that passes the guard, or None."""
        calibrated = self._calibrate() if any(map(_is_static, schemes)) else True
        self._rest = self.limit.share(1.0)
        with progress.task("schemes", total=len(schemes)) as advance:
            for name in sorted(schemes, key=_rank):
                advance(1, f"scheme {name}")
                if not calibrated and _is_static(name):
                    self.candidates.append(Candidate(name, name, reason=f"{OUT_OF_TIME} for calibration"))
                else:
                    self._screen(name)
        self._time(self._loaded(), self._rest.at(TIMED))
        self._refine()
        return self._hear(guard)

    def _calibrate(self) -> bool:
        """Takes the histograms that static schemes need, and says whether there was time for it."""
        try:
            with self.limit.share(CALIBRATED).enforced():
                self.subject.histograms  # noqa: B018  they are kept
        except OutOfTime:
            return False
        self.subject.rounding  # noqa: B018  and so is this, which takes no longer than it may
        return True

    def _loaded(self) -> list[Candidate]:
        return [item for item in self.candidates if item.variant is not None]

    def _screen(self, scheme: str) -> None:
        """Adds the variants of the scheme, as many as can be tried in time, or the reason why there are none."""
        module = registry.load(SCHEMES, scheme)
        refusal = getattr(module, "refusal", lambda _: None)(self.subject)
        before, reason = len(self.candidates), refusal or ""
        if not refusal:
            try:
                with self._rest.at(BUILT).enforced():
                    for variant in module.variants(self.subject):
                        self.candidates.append(self._tried(variant))
            except RuntimeRefused as error:
                reason = error.message
            except OutOfTime:
                reason = OUT_OF_TIME
        if reason or len(self.candidates) == before:
            name = scheme if len(self.candidates) == before else f"{scheme}, the rest"
            self.candidates.append(Candidate(name, scheme, reason=reason or "nothing that this scheme quantises"))

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

    def _time(self, items: Sequence[Candidate], limit: Deadline) -> None:
        """Times the candidates beside float, all in turn: as many as can be compared before the limit, the promising first."""
        chosen = self._as_many_as_fit([item for item in items if item.session is not None], limit)
        turns = {"float": self._turn(self.float_session)}
        turns |= {str(place): self._turn(item.session) for place, item in enumerate(chosen) if item.session is not None}
        with self.watch:
            seconds = TIMING * self.measuring
            taken = measure(turns, seconds=seconds, seed=self.seed, limit=limit) if chosen else None
        places = {id(item): str(place) for place, item in enumerate(chosen)}
        for item in items:
            place, item.session = places.get(id(item)), None
            if taken is None or not taken.comparable or place is None:
                item.reason = item.reason or f"{OUT_OF_TIME} before it was timed"
                continue
            item.ratio = speedup(taken.rounds["float"], taken.rounds[place])
            if item.ratio.ratio < HOPELESS and not item.reason and item.variant is not None:
                item.reason = why_slow(item.variant, self.subject.vnni, limit)

    def _as_many_as_fit(self, items: Sequence[Candidate], limit: Deadline) -> list[Candidate]:
        """Those that may keep the metric first, by the time of a call of float."""
        turn = self._turn(self.float_session)
        once = float(turn(2).min()) if items else 0.0
        most = int(limit.left / max(least_seconds(once), 1e-9)) - 1
        return sorted(items, key=lambda item: bool(item.reason))[: max(0, most)]

    def _turn(self, session: Session) -> Turn:
        return timed(lambda: session.run_fitted(self.feed))

    def _refine(self) -> None:
        """Better versions of the most promising static variants: another calibrator, only nodes that pay, fewer nodes."""
        chosen, limit = self._promising(), self._rest.at(REFINED)
        fresh: list[Candidate] = []
        for index, item in enumerate(chosen):
            self._improve(item, limit.share(1 / (len(chosen) - index)), fresh)
        self._time(fresh, self._rest.at(TIMED_AGAIN))
        self.candidates += fresh

    def _promising(self) -> list[Candidate]:
        """The fastest static variants, of those that can still be saved."""
        static = [item for item in self._loaded() if item.variant is not None and item.variant.plan is not None]
        fast = [item for item in static if item.ratio is not None and item.ratio.ratio > HOPELESS]
        hopeful = [
            item for item in fast if item.score is not None and item.score.loss <= RUINED * self.judge.budget.amount
        ]
        return sorted(hopeful or fast, key=_speed, reverse=True)[:CHOSEN]

    def _improve(self, item: Candidate, limit: Deadline, fresh: list[Candidate]) -> None:
        """Adds better versions of the candidate, as far as there is time for them. Each step begins with the last that runs."""
        steps: list[Callable[[Candidate, Deadline], list[Candidate]]] = [self._only_paying, self._spared]
        if self.auto_calibrator:
            steps.insert(0, self._other_calibrator)
        best = item
        for index, step in enumerate(steps):
            try:
                with limit.enforced():
                    # The last step saves most and gets all that is left.
                    found = step(best, limit.share(1.0 if index == len(steps) - 1 else 0.4))
            except OutOfTime:
                return
            fresh += found
            best = _last([best, *found])

    def _is_close_to_the_budget(self, item: Candidate) -> bool:
        """Or beyond it: other data may say otherwise than the data of the search."""
        return item.score is not None and item.score.loss > sensitivity.TARGET * self.judge.budget.amount

    def _other_calibrator(self, item: Candidate, limit: Deadline) -> list[Candidate]:
        """The same plan with the calibrator that comes closest to float: the metric of a few examples hardly tells."""
        assert item.variant is not None
        assert item.variant.plan is not None
        variants = [item.variant]
        for name in sorted(registry.names(CALIBRATORS), key=lambda name: (name == SLOWEST, name)):
            if name != item.variant.calibrator and not limit.passed:
                model = _own(item.variant).built(item.variant.plan, name)
                variants.append(replace(item.variant, name=f"{item.name}, {name}", model=model, calibrator=name))
        best = min(variants, key=self._distance)
        return [] if best is item.variant else [self._tried(best)]

    def _distance(self, variant: Variant) -> float:
        return sensitivity.distance(variant.model, self.screening.take(CLOSELY), self.subject.settings)

    def _only_paying(self, item: Candidate, limit: Deadline) -> list[Candidate]:
        """The plan without nodes that are not fused or are slower than in float."""
        variant = item.variant
        assert variant is not None
        assert variant.plan is not None
        float_only = unfused(variant.model, variant.plan.nodes)
        names = float_only | losers(_own(variant).model, variant, self.feed, self.subject.settings, limit=limit)
        if not names or names >= variant.plan.nodes:
            return []
        reasons = {name: NOT_FUSED if name in float_only else SLOWER for name in names}
        return [self._shortened(variant, names, reasons, "paying nodes")]

    def _spared(self, item: Candidate, limit: Deadline) -> list[Candidate]:
        """The plan without the nodes that cost the metric most, where it is close to the budget or beyond it."""
        variant = item.variant
        if not self._is_close_to_the_budget(item):
            return []
        assert variant is not None
        assert variant.plan is not None
        calibrator = variant.calibrator or self.subject.calibrator
        found = sensitivity.spared(_own(variant), variant.plan, calibrator, self.judge, self.screening, limit=limit)
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
            limit = self._rest.at(HEARD_ALL).share(PART)
            with progress.task(f"guard {item.name}"), self.watch:
                item.ruling = guard.rule(item.variant, seconds=HEARING * self.measuring, limit=limit)
            if item.ruling is None:
                item.reason = f"{OUT_OF_TIME} before the guard"
            elif item.ruling.passed and (best is None or self._merit(item) > self._merit(best)):
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


def _is_static(scheme: str) -> bool:
    return scheme.startswith("static")


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
