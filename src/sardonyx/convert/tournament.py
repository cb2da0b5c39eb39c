"""Every route is run, every export is searched for an input on which it differs from the original, and the best is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sardonyx import files, history, progress
from sardonyx.agreement import for_rounding, judge
from sardonyx.columns import store_fitted
from sardonyx.convert.candidate import Candidate, rename
from sardonyx.convert.contender import Contender
from sardonyx.convert.evaluate import Evaluation
from sardonyx.convert.inputs import Inputs, settle, with_state
from sardonyx.convert.ranking import best
from sardonyx.convert.report import Outcome, report, unsteady_report
from sardonyx.convert.spent import Spent
from sardonyx.errors import SourceFailed, UsageError
from sardonyx.falsify import Answered, Budget, Hints, Probe, Search
from sardonyx.falsify.description import under_names
from sardonyx.falsify.estimator import estimator_probes
from sardonyx.files import temporary_folder
from sardonyx.report import Report
from sardonyx.samples import probes_of
from sardonyx.signature import Signature
from sardonyx.sources import Exported, Failure, Original, Outputs, Source, Steadiness, recognise

# Every exporter writes it well, and onnxruntime has loaded it since 1.14.
DEFAULT_OPSET = 18
AT_ONCE = 2
# Batches of the user's data that are asked.
DATA_BATCHES = 32
# Sources that take a float64 where the export takes a float32, and answer it as it is.
PRECISE = frozenset(("sklearn", "boosting"))


@dataclass
class Race:
    """The exports, in the order of the routes: those still in it, and how the others ended."""

    places: list[Contender | Candidate] = field(default_factory=list)

    @property
    def racing(self) -> list[Contender]:
        return [place for place in self.places if isinstance(place, Contender) and place.racing]

    @property
    def candidates(self) -> list[Candidate]:
        return [place.candidate if isinstance(place, Contender) else place for place in self.places]


@dataclass(frozen=True)
class Settings:
    """What was asked for, besides the source and where to write."""

    inputs: Sequence[str] = ()
    example: Any = None
    weights: str | Path | None = None
    opset: int | None = None
    route: str = "auto"
    input_names: Sequence[str] = ()
    output_names: Sequence[str] = ()
    training: bool = False
    python: str | Path | None = None
    trust: bool = False
    rtol: float | None = None
    atol: float | None = None
    timeout: float = 300
    data: Any = None
    label: str | None = None
    allow_random: bool = False
    first_call: bool = False
    state: bool = False
    search: float | None = None
    seed: int = 0

    def allows(self, steadiness: Steadiness) -> bool:
        """Whether the user has said how to treat a model that answers the same inputs differently."""
        return (self.allow_random or not steadiness.random) and (self.first_call or not steadiness.state)


def run_tournament(source: Any, output: Path, settings: Settings) -> Report:
    """The tournament's report. The winner is written to `output`; if no route agrees, no model is written."""
    files.must_be_writable(output)
    recognised = recognise(source, weights=settings.weights, python=settings.python, trust=settings.trust)
    routes = _routes(recognised, settings.route)
    with (
        temporary_folder() as scratch,
        ExitStack() as stack,
    ):
        original = stack.enter_context(Original(recognised, timeout=settings.timeout))
        opened = original.processor_seconds
        description = original.describe()
        inputs = settle(settings.inputs, settings.example, description)
        steadiness = _steadiness(original, inputs)
        if settings.state and steadiness.state:
            stated = replace(recognised, state=_changes(original, steadiness))
            original = stack.enter_context(Original(stated, timeout=settings.timeout))
            description = original.describe()
            inputs = with_state(inputs, description["state"])
            steadiness = _steadiness(original, inputs)
        if not settings.allows(steadiness):
            return unsteady_report(recognised, steadiness)
        description = under_names(description, inputs.signature)
        if settings.inputs or settings.example is not None or settings.data is not None:
            description = {**description, "unsized": []}  # the user has shown it
        tournament = _Tournament(original, inputs, description, scratch, settings, steadiness)
        try:
            tournament.compete(routes)
            found = tournament.steadiness_elsewhere()
            if not settings.allows(found):
                return unsteady_report(recognised, found)
            winner = tournament.crown(output)
            tournament.spent.processor += original.processor_seconds - opened
            return tournament.report(output, winner)
        finally:
            tournament.close()


class _Tournament:
    """One tournament: the original, the search, and the race of the exports."""

    def __init__(
        self,
        original: Original,
        inputs: Inputs,
        description: Mapping[str, Any],
        scratch: Path,
        settings: Settings,
        steadiness: Steadiness,
    ) -> None:
        self.original, self.inputs, self.description, self.scratch = original, inputs, description, scratch
        self.settings, self.steadiness = settings, steadiness
        self.race, self.spent = Race(), Spent()
        self.options: dict[str, Any] = {
            "opset": settings.opset or DEFAULT_OPSET,
            "input_names": [],  # the winner's inputs are renamed, so that until then all have the names of the example
            "output_names": list(settings.output_names),
            "training": settings.training,
        }
        self.evaluation = Evaluation(
            original, inputs, description, scratch, opset=settings.opset, output_names=settings.output_names,
            rtol=settings.rtol, atol=settings.atol, training=settings.training, ignored=steadiness.random,
        )  # fmt: skip
        budget = Budget() if settings.search is None else Budget(seconds=settings.search)
        self.search = Search(
            lambda batches, limit: original.explore(batches, limit=limit or None), original.branches, inputs.signature,
            inputs.example, Hints.of(description), seed=settings.seed, budget=budget,
        )  # fmt: skip

    def compete(self, routes: Sequence[str]) -> None:
        """Exports run beside each other and beside the original's own answers; a live object is only ever used by one."""
        with progress.task("convert", total=2 * len(routes) + 2) as advance:
            if self.original.source.live:
                self._ask()
                exports = [self._export(route) for route in routes]
            else:
                with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="route") as pool:
                    waiting = [pool.submit(self._export, route) for route in routes]
                    self._ask()
                    advance(text="convert: the original has answered the first inputs")
                    exports = [future.result() for future in waiting]
            for exported in exports:
                advance(2, text=f"convert: comparing {exported.route}")
                with self.spent.on("comparing"):
                    self.race.places.append(_entered(self.evaluation, exported, self.search.answered))
            advance(text="convert: searching for an input that tells them apart")
            with self.spent.on("searching"):
                _search(self.evaluation, self.search, self.race, exports)
                for contender in self.race.racing:
                    self.evaluation.judge_spread(contender)

    def steadiness_elsewhere(self) -> Steadiness:
        """Whether the original answers other inputs than the example alike: chance may wait in a branch of its own."""
        items = self.search.to_repeat()
        with self.spent.on("original"):
            answers = self.original.predict([item.probe.arrays for item in items])
        for item, answer in zip(items, answers, strict=True):
            if not isinstance(answer, Outputs):
                continue
            again = judge(
                item.outputs.arrays, answer.arrays, for_rounding(item.outputs.arrays), names=item.outputs.names
            )
            drawn = [output.name for output in again.outputs if output.verdict == "mismatch"]
            if set(drawn) - set(self.steadiness.random):
                found = self.original.steadiness(item.probe.arrays)
                found = Steadiness(state=tuple(drawn)) if found.steady else found
                return replace(found, probe=item.probe.name)
        for item in self.search.to_call_in_a_row():
            try:
                found = self.original.steadiness(item.probe.arrays)
            except SourceFailed:  # it answers these inputs, but not a row of calls with them
                continue
            if found.state and not self.steadiness.state:
                return replace(found, probe=item.probe.name)
        return Steadiness()

    def crown(self, output: Path) -> Contender | None:
        """The best of those still in the race, written to `output`; None if there is none."""
        with self.spent.on("ranking"):
            winner = best(self.race.racing, self.inputs.example)
        self.spent.processor += self.evaluation.processor_seconds
        if winner is None:
            self.evaluation.require_repeatable()
            return None
        if self.settings.input_names:
            rename(winner.model.ir.graph.inputs, self.settings.input_names, "inputs")
        store_fitted(winner.model.ir, self.description.get("columns") or ())
        said = {"source": str(self.original.source), "route": winner.candidate.route, **self.options}
        winner.model.record(history.step("convert", options=said, repairs=winner.candidate.repairs)).save(output)
        return winner

    def report(self, output: Path, winner: Contender | None) -> Report:
        outcome = Outcome(
            self.original.source, output, self.race.candidates, winner, self.search, self.steadiness,
            self.evaluation.unproven(), self.description,
        )  # fmt: skip
        return report(outcome, self.spent)

    def close(self) -> None:
        for place in self.race.places:
            if isinstance(place, Contender):
                self.evaluation.leave(place)

    def _export(self, route: str) -> Exported:
        return self.original.export(
            route,
            self.scratch / f"{route}.onnx",
            example=self.inputs.example,
            dynamic=self.inputs.dynamic,
            **self.options,
        )

    def _ask(self) -> None:
        """The original's answers to the example, to the user's data, and to what an estimator says of itself."""
        signature, example = self.inputs.signature, self.inputs.example
        extra = [*self._user_probes(), *estimator_probes(signature, example, self.description, self.settings.seed)]
        with self.spent.on("original"):
            answers = self.search.first(extra)
            if isinstance(answers, Failure):
                raise _refused_example(self.original, self.inputs, answers)
            self.evaluation.hear(answers)

    def _user_probes(self) -> list[Probe]:
        """The first batches of the user's own data, for an estimator in the precision that they have."""
        if self.settings.data is None:
            return []
        columns = self.description.get("columns") or ()
        signature, label = self.inputs.signature, self.settings.label
        stated = {item["name"]: self.inputs.example[item["name"]] for item in self.description.get("state") or ()}
        given = Signature(tuple(spec for spec in signature.inputs if spec.name not in stated))
        batches = probes_of(self.settings.data, given, limit=DATA_BATCHES, label=label, columns=columns)
        batches = [{**batch, **stated} for batch in batches]
        if self.original.source.plugin not in PRECISE:
            batches = [signature.fit(batch) for batch in batches]
        return [Probe(f"the data, batch {index}", batch) for index, batch in enumerate(batches)]


def _routes(source: Source, asked: str) -> tuple[str, ...]:
    known = source.routes()
    if asked == "auto":
        return known
    if asked not in known:
        raise UsageError(
            f"a {source.plugin} source ({source.form}) has no route '{asked}'",
            hint=f"its routes are {', '.join(known)}",
        )
    return (asked,)


def _steadiness(original: Original, inputs: Inputs) -> Steadiness:
    """Whether the original answers the example alike when it is asked again; the example must be answered at all."""
    try:
        return original.steadiness(inputs.example)
    except SourceFailed as error:
        (answer,) = original.predict([inputs.example])
        if isinstance(answer, Failure):
            raise _refused_example(original, inputs, answer) from error
        raise


def _changes(original: Original, steadiness: Steadiness) -> tuple[str, ...]:
    """The names of what a call changes in the model."""
    if original.source.plugin != "torch" or not steadiness.changes:
        raise UsageError(
            f"the state of {original.source} cannot be made an input",
            hint="state can be handed in and out of PyTorch modules that hold it as buffers or tensors",
        )
    return steadiness.changes


def _refused_example(original: Original, inputs: Inputs, answer: Failure) -> SourceFailed:
    where = f" at {answer.where}" if answer.where else ""
    return SourceFailed(
        f"{original.source} fails on the example inputs{where}: {answer.reason}",
        hint=f"the example is {inputs.signature.describe()}; give real values with --example",
    )


def _entered(evaluation: Evaluation, exported: Exported, answered: Sequence[Answered]) -> Contender | Candidate:
    """The export after its first comparison, repaired where it is wrong for a known reason."""
    place = evaluation.enter(exported)
    if isinstance(place, Contender):
        evaluation.judge(place, answered)
    return _or_repaired(evaluation, place, exported)


def _or_repaired(evaluation: Evaluation, place: Contender | Candidate, exported: Exported) -> Contender | Candidate:
    """The place itself, or a repaired copy that agrees where it does not."""
    if isinstance(place, Contender) and place.racing:
        return place
    repaired = evaluation.repaired(place, exported)
    if isinstance(place, Contender):
        evaluation.leave(place)
    if repaired is not None:
        return repaired
    return place.candidate if isinstance(place, Contender) else place


def _search(evaluation: Evaluation, search: Search, race: Race, exports: Sequence[Exported]) -> None:
    """Goes on asking for inputs that may tell the exports from the original, until none is left or the budget ends."""
    if not race.racing:
        return
    for answers in search.rounds(lambda: race.racing):
        evaluation.hear(answers)
        for index, place in enumerate(race.places):
            if isinstance(place, Contender) and place.racing and answers:
                evaluation.judge(place, answers)
                race.places[index] = _or_repaired(evaluation, place, exports[index])
        if not race.racing:
            return
