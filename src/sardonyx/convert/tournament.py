"""Every route is run, every export is searched for an input on which it differs from the original, and the best is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sardonyx import files, history, progress
from sardonyx.convert import landmarks
from sardonyx.convert.candidate import Candidate, rename
from sardonyx.convert.contender import Contender
from sardonyx.convert.evaluate import Evaluation
from sardonyx.convert.inputs import Inputs, settle
from sardonyx.convert.ranking import best
from sardonyx.convert.report import Outcome, report, unsteady_report
from sardonyx.convert.spent import Spent
from sardonyx.errors import SourceFailed, UsageError
from sardonyx.falsify import Answered, Budget, Hints, Probe, Search
from sardonyx.report import Report
from sardonyx.samples import probes_of
from sardonyx.signature import Arrays
from sardonyx.sources import Exported, Failure, Original, Source, Trial, recognise

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


def run_tournament(
    source: Any,
    output: Path,
    *,
    inputs: Sequence[str],
    example: Any,
    weights: str | Path | None,
    opset: int | None,
    route: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    training: bool,
    python: str | Path | None,
    trust: bool,
    rtol: float | None,
    atol: float | None,
    timeout: float,
    data: Any,
    label: str | None,
    allow_random: bool,
    first_call: bool,
    search: float | None,
    seed: int,
) -> Report:
    """The tournament's report. The winner is written to `output`; if no route agrees, no model is written."""
    files.must_be_writable(output)
    recognised = recognise(source, weights=weights, python=python, trust=trust)
    routes = _routes(recognised, route)
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch, Original(recognised, timeout=timeout) as original:
        opened = original.processor_seconds
        description = original.describe()
        settled = settle(inputs, example, description)
        options = {
            "opset": opset or DEFAULT_OPSET,
            "input_names": [],  # the winner's inputs are renamed, so that until then all have the names of the example
            "output_names": list(output_names),
            "training": training,
        }
        steadiness = _steadiness(original, settled)
        if (steadiness.random and not allow_random) or (steadiness.state and not first_call):
            return unsteady_report(recognised, steadiness)
        evaluation = Evaluation(
            original,
            settled,
            description,
            Path(scratch),
            opset=opset,
            output_names=output_names,
            rtol=rtol,
            atol=atol,
            training=training,
            ignored=steadiness.random,
        )
        budget = Budget() if search is None else Budget(seconds=search)
        seeker = Search(
            lambda batches, limit: _explore(original, batches, limit), original.branches, settled.signature,
            settled.example, Hints.of(description), seed=seed, budget=budget,
        )  # fmt: skip
        spent = Spent()
        extra = [
            *_user_probes(data, label, settled, recognised, description),
            *_landmark_probes(settled, description, seed),
        ]
        race = _compete(original, evaluation, seeker, extra, routes, settled, Path(scratch), options, spent)
        try:
            with spent.on("ranking"):
                winner = best(race.racing, settled.example)
            spent.processor += original.processor_seconds - opened + evaluation.processor_seconds
            if winner is None:
                evaluation.require_repeatable()
            else:
                if input_names:
                    rename(winner.model.ir.graph.inputs, input_names, "inputs")
                step = history.step(
                    "convert",
                    options={"source": str(recognised), "route": winner.candidate.route, **options},
                    repairs=winner.candidate.repairs,
                )
                winner.model.record(step).save(output)
            outcome = Outcome(recognised, output, race.candidates, winner, seeker, steadiness, evaluation.unproven())
            return report(outcome, spent)
        finally:
            for place in race.places:
                if isinstance(place, Contender):
                    evaluation.leave(place)


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


def _steadiness(original: Original, inputs: Inputs) -> Any:
    """Whether the original answers the example alike when it is asked again; the example must be answered at all."""
    try:
        return original.steadiness(inputs.example)
    except SourceFailed as error:
        (answer,) = original.predict([inputs.example])
        if isinstance(answer, Failure):
            raise _refused_example(original, inputs, answer) from error
        raise


def _refused_example(original: Original, inputs: Inputs, answer: Failure) -> SourceFailed:
    where = f" at {answer.where}" if answer.where else ""
    return SourceFailed(
        f"{original.source} fails on the example inputs{where}: {answer.reason}",
        hint=f"the example is {inputs.signature.describe()}; give real values with --example",
    )


def _explore(original: Original, batches: Sequence[Arrays], limit: float) -> list[Trial]:
    return original.explore(batches, limit=limit or None)


def _user_probes(
    data: Any, label: str | None, inputs: Inputs, source: Source, description: Mapping[str, Any]
) -> list[Probe]:
    """The first batches of the user's own data, for an estimator in the precision that they have."""
    if data is None:
        return []
    columns = description.get("columns") or ()
    batches = probes_of(data, inputs.signature, limit=DATA_BATCHES, label=label, columns=columns)
    if source.plugin not in PRECISE:
        batches = [inputs.signature.fit(batch) for batch in batches]
    return [Probe(f"the data, batch {index}", batch) for index, batch in enumerate(batches)]


def _landmark_probes(inputs: Inputs, description: Mapping[str, Any], seed: int) -> list[Probe]:
    import numpy as np

    near = landmarks.around(
        inputs.signature, inputs.example, description.get("landmarks") or {}, np.random.default_rng(seed)
    )
    return [Probe(name, arrays, on_edge=name != "between the thresholds") for name, arrays in near.items()]


def _compete(
    original: Original,
    evaluation: Evaluation,
    search: Search,
    extra: Sequence[Probe],
    routes: Sequence[str],
    inputs: Inputs,
    scratch: Path,
    options: dict[str, Any],
    spent: Spent,
) -> Race:
    """Exports run beside each other and beside the original's own answers; a live object is only ever used by one."""

    def export(route: str) -> Exported:
        return original.export(
            route, scratch / f"{route}.onnx", example=inputs.example, dynamic=inputs.dynamic, **options
        )

    def ask() -> None:
        with spent.on("original"):
            answers = search.first(extra)
            if isinstance(answers, Failure):
                raise _refused_example(original, inputs, answers)
            evaluation.hear(answers)

    race = Race()
    with progress.task("convert", total=2 * len(routes) + 2) as advance:
        if original.source.live:
            ask()
            exports = [export(route) for route in routes]
        else:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="route") as pool:
                waiting = [pool.submit(export, route) for route in routes]
                ask()
                advance(text="convert: the original has answered the first probes")
                exports = [future.result() for future in waiting]
        for exported in exports:
            advance(2, text=f"convert: comparing {exported.route}")
            with spent.on("comparing"):
                race.places.append(_entered(evaluation, exported, search.answered))
        advance(text="convert: searching for an input that tells them apart")
        with spent.on("searching"):
            _search(evaluation, search, race, exports)
    return race


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
