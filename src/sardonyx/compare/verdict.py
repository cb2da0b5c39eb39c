"""compare: runs both sides on the same inputs, judges every output, and looks for the first diverging node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sardonyx.agreement import Judgement, OutputVerdict, Tolerance, flatten, for_rounding, judge
from sardonyx.compare.cases import Case, data_cases
from sardonyx.compare.flow import Flow
from sardonyx.compare.graph_noise import GraphNoise
from sardonyx.compare.localize import Divergence, localize
from sardonyx.compare.noise import Noise, added
from sardonyx.compare.optimizer import Doubt, ask, equal_when_plain, find_doubt
from sardonyx.compare.searched import Reach, searched_cases
from sardonyx.compare.sides import (
    INPUTS,
    OnnxSide,
    OriginalSide,
    Pairing,
    Side,
    free_graphs,
    open_candidate,
    open_reference,
    pair,
)
from sardonyx.compare.source_noise import SourceNoise
from sardonyx.compare.standin import stand_in
from sardonyx.compare.steps import Steps
from sardonyx.compare.words import report
from sardonyx.dataset import Dataset
from sardonyx.errors import BadData, InputError, RuntimeRefused
from sardonyx.model import Model
from sardonyx.progress import task
from sardonyx.report import Report
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import Failure, Original, Outputs

# A case this far beyond its tolerance is as good to search in as any worse one.
CLEAR = 100.0


@dataclass
class Tally:
    """What has been seen so far: the judgement, how it was reached, and the case to search in."""

    judgement: Judgement | None = None
    method: str = ""
    cases: int = 0
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    failures: list[tuple[Case, Failure]] = field(default_factory=list)
    worst: Case | None = None
    worst_used: float = 0.0
    worst_output: str = ""
    worst_tolerances: Sequence[Tolerance] = ()
    steps: Steps | None = None

    def steps_of(self, original: Original) -> Steps:
        """Where rounding decides in the original, remembered from case to case."""
        self.steps = self.steps or Steps(original)
        return self.steps

    @property
    def mismatch(self) -> bool:
        """Whether a difference was found that is more than rounding."""
        return bool(self.failures) or (self.judgement is not None and self.judgement.verdict == "mismatch")

    def add(self, case: Case, judged: Judgement, tolerances: Sequence[Tolerance]) -> None:
        self.judgement = judged if self.judgement is None else self.judgement.merge(judged)
        used = min(judged.used, CLEAR)
        if judged.verdict == "mismatch" and used > self.worst_used:
            self.worst, self.worst_used, self.worst_tolerances = case, used, tolerances
            self.worst_output = max(judged.outputs, key=lambda output: output.used).name


def compare_models(
    reference: Any,
    candidate: Any,
    *,
    data: Dataset | None,
    rtol: float | None,
    atol: float | None,
    localize: bool,
    memory: int,
    seed: int,
    source_options: Mapping[str, Any],
) -> Report:
    """The report of `sardonyx.compare`."""
    ours = open_candidate(candidate)
    tally, reach = Tally(), Reach()
    with open_reference(reference, source_options) as theirs:
        pairing = pair(theirs.signature, ours.signature)
        signature = theirs.signature or ours.signature
        floor = _floor(theirs, signature, memory)
        allowed = Tolerance(atol or 0.0, rtol or 0.0)
        data, precise = _as_fitted(theirs, data)
        if data is not None:
            single = precise and all(spec.dtype != "float64" for spec in ours.signature.outputs)
            for cases in data_cases(theirs, signature, data, precise=precise, single=single):
                _compare(theirs, ours, pairing, cases, floor, allowed, tally)
        else:
            for cases in searched_cases(theirs, ours, pairing, signature, seed, reach):
                _compare(theirs, ours, pairing, cases, floor, allowed, tally)
                if tally.mismatch:
                    break
        doubt = _doubt(theirs, ours, pairing, tally)
        found, reason = _locate(theirs, ours, pairing, tally, memory) if localize and doubt is None else (None, "")
    judgement = _with_failures(tally)
    notes = (*pairing.notes, *filter(None, [reason]))
    told = report(judgement, found, ours.operators, tally, notes, reach.unreached)
    return told if doubt is None else replace(told, findings=(*told.findings, doubt.finding()))


def _as_fitted(theirs: Side, data: Dataset | None) -> tuple[Dataset | None, bool]:
    """The data with the columns in the order that an estimator was fitted on, and whether it gets them in their own precision."""
    if data is None or not isinstance(theirs, OriginalSide):
        return data, False
    said = theirs.original.describe()
    return replace(data, columns=data.columns or said.get("columns") or ()), "estimator" in said


def _compare(
    theirs: Side,
    ours: OnnxSide,
    pairing: Pairing,
    cases: Sequence[Case],
    floor: FloorOf,
    allowed: Tolerance,
    tally: Tally,
) -> None:
    """Adds the verdicts of these cases to the tally."""
    with task("running the candidate"):
        batches = [_narrowed(ours, pairing.inputs_for_candidate(case.inputs)) for case in cases]
        answers = _answers(ours, batches) if batches else []
    tally.cases += len(cases)
    answered: list[tuple[Case, Arrays, list[Any]]] = []
    for case, batch, answer in zip(cases, batches, answers, strict=True):
        if not isinstance(answer, Failure):
            answered.append((case, batch, pairing.outputs_for_reference(answer, case.expected)))
        elif case.soft:
            tally.notes.append(("edge-values", case.name, f"the candidate fails: {answer.reason}"))
        else:
            tally.failures.append((case, answer))
    if answered:
        _judge(theirs, ours, pairing, answered, floor, allowed, tally)


def _judge(
    theirs: Side,
    ours: OnnxSide,
    pairing: Pairing,
    answered: Sequence[tuple[Case, Arrays, list[Any]]],
    floor: FloorOf,
    allowed: Tolerance,
    tally: Tally,
) -> None:
    """Holds the candidate's answers against the reference's, within the rounding that is measured on the reference."""

    def judged_by(case: Case, actual: list[Any], tolerances: Sequence[Tolerance]) -> Judgement:
        names, same_shape = case.expected.names, theirs.signature is not None
        return judge(case.expected.arrays, actual, tolerances, names=names, same_shape=same_shape)

    same = _same_graphs(ours, pairing, answered) if theirs.signature is not None else set()
    cases = [case for case, _, _ in answered]
    actual = [
        list(case.expected.arrays) if index in same and _is_rounding(case, mine) else mine
        for index, (case, _, mine) in enumerate(answered)
    ]
    with task("measuring the noise floor"):
        noise = added(floor(cases, actual, judged_by), allowed)
        free_graphs()
    if noise.method != "exact" or not tally.method:
        tally.method = noise.method
    for index, (case, tolerances, stable) in enumerate(zip(cases, noise.tolerances, noise.stable, strict=True)):
        if case.generated and not stable:
            tally.notes.append(("unstable", case.name, "left out: rounding alone moves its NaN or infinite values"))
            continue
        judged = judged_by(case, actual[index], tolerances)
        if judged.verdict == "mismatch" and isinstance(theirs, OriginalSide) and case.item is not None:
            mine = Outputs(case.expected.names, tuple(actual[index]))
            judged = tally.steps_of(theirs.original).forgive(judged, case.item, mine, tolerances)
        if judged.verdict == "mismatch" and (case.soft or case.on_edge):
            worst = max(judged.outputs, key=lambda output: output.used)
            tally.notes.append(
                ("edge-values", case.name, f"{worst.name} differs {worst.note or f'by {worst.max_abs:g}'}")
            )
            continue
        if index in same and judged.verdict == "rounding":
            judged = judge(case.expected.arrays, case.expected.arrays, names=case.expected.names)
        tally.add(case, judged, tolerances)


def _answers(ours: OnnxSide, batches: Sequence[Arrays]) -> list[Outputs | Failure]:
    """The candidate's answers: failures where onnxruntime loads it only without its optimiser, an error where it does not."""
    try:
        return ours.predict(batches)
    except RuntimeRefused:
        if isinstance(ask(ours.plain, batches[:1])[0], Failure):
            raise
        return ask(ours, batches)


def _same_graphs(ours: OnnxSide, pairing: Pairing, answered: Sequence[tuple[Case, Arrays, list[Any]]]) -> set[int]:
    """The cases in which only onnxruntime's optimiser is between the candidate and the reference."""
    cases = [replace(case, inputs=batch) for case, batch, _ in answered]
    return equal_when_plain(
        ours, cases, [actual for _, _, actual in answered],
        lambda index, answer: pairing.outputs_for_reference(answer, cases[index].expected),
    )  # fmt: skip


def _is_rounding(case: Case, actual: Sequence[Any]) -> bool:
    return judge(case.expected.arrays, actual, for_rounding(case.expected.arrays)).verdict != "mismatch"


def _doubt(theirs: Side, ours: OnnxSide, pairing: Pairing, tally: Tally) -> Doubt | None:
    """What onnxruntime's optimiser does to the candidate, where the candidate would agree without it."""
    crashed = [case for case, failure in tally.failures if failure.where != INPUTS]
    case = crashed[0] if crashed else tally.worst
    if case is None:
        return None
    batch, exact = pairing.inputs_for_candidate(case.inputs), theirs.signature is not None
    plain, usual = (ask(side, [batch])[0] for side in (ours.plain, ours))
    if isinstance(plain, Failure):
        return None
    names, tolerances = plain.names, tally.worst_tolerances or for_rounding(case.expected.arrays)

    def judging(index: int, actual: Sequence[Sequence[Any]]) -> Judgement:
        mine = pairing.outputs_for_reference(Outputs(names, tuple(actual[index])), case.expected)
        return judge(case.expected.arrays, mine, tolerances, names=case.expected.names, same_shape=exact)

    if judging(0, [plain.arrays]).verdict == "mismatch":
        return None
    own = replace(case, inputs=batch, expected=plain)
    return find_doubt(ours, [own], [usual], judging, confirmed_by="" if exact else "the reference")


def _narrowed(ours: OnnxSide, inputs: Arrays) -> Arrays:
    """The inputs in the types that the candidate takes; as they are where they do not fit it, which it says itself."""
    fitted, problems = ours.signature.try_fit(inputs)
    return inputs if problems else fitted


JudgedBy = Callable[[Case, list[Any], Sequence[Tolerance]], Judgement]
FloorOf = Callable[[Sequence[Case], Sequence[list[Any]], JudgedBy], Noise]


def _floor(theirs: Side, signature: Signature, memory: int) -> FloorOf:
    """What measures the reference's own rounding on cases. The candidate's never counts: it could excuse its own faults."""
    if not isinstance(theirs, OriginalSide):

        def load() -> Model:
            graph = theirs.graph()
            assert graph is not None, "a side is an ONNX graph or an original"
            return graph

        graph_noise = GraphNoise(load, memory=memory)
        return lambda cases, actual, _: graph_noise.of(
            [case.inputs for case in cases], [case.expected.arrays for case in cases], others=actual
        )
    measured: list[SourceNoise] = []
    original = theirs.original

    def of(cases: Sequence[Case], actual: Sequence[list[Any]], judged_by: JudgedBy) -> Noise:
        items = [case.item for case in cases if case.item is not None]
        if not measured:
            measured.append(SourceNoise(original, signature, items))

        def used(noise: Noise) -> list[float]:
            return [
                0.0 if case.on_edge else judged_by(case, mine, tolerances).used
                for case, mine, tolerances in zip(cases, actual, noise.tolerances, strict=True)
            ]

        return measured[0].of(items, used)

    return of


def _locate(theirs: Side, ours: OnnxSide, pairing: Pairing, tally: Tally, memory: int) -> tuple[Divergence | None, str]:
    """The first diverging node, and a remark: what the search looked into, or why it found nothing."""
    crashed = [case for case, failure in tally.failures if failure.where != INPUTS]
    case = crashed[0] if crashed else tally.worst
    if case is None:
        return None, ""
    wanted = 0 if crashed else _output_of(case, tally.worst_output)
    if isinstance(theirs, OriginalSide):
        with stand_in(theirs.original, case, tally.worst_tolerances) as export:
            if export is None:
                return None, "no export of the reference agrees with it, so there is no graph to look for the node in"
            remark = f"the search looked into the reference through its {export.route} export, which agrees with it"
            return _search(
                export.model, ours, pair(export.model.signature, ours.signature), case, wanted, memory, remark
            )
    graph = theirs.graph()
    assert graph is not None, "a side is an ONNX graph or an original"
    return _search(graph, ours, pairing, case, wanted, memory, "")


def _search(
    reference: Model, ours: OnnxSide, pairing: Pairing, case: Case, wanted: int, memory: int, remark: str
) -> tuple[Divergence | None, str]:
    theirs = reference.signature.outputs[wanted].name
    output = next(mine for mine, other in pairing.outputs.items() if other == theirs)
    try:
        found = localize(
            Flow.of(reference), Flow.of(ours.graph()), case.inputs,
            output=output, inputs_of=pairing.inputs, outputs_of=pairing.outputs, memory=memory,
            own=ours.signature.fit(pairing.inputs_for_candidate(case.inputs)),
        )  # fmt: skip
    except (RuntimeRefused, InputError) as error:
        return None, f"the first diverging node was not found: {error.message}"
    return found, remark


def _output_of(case: Case, leaf: str) -> int:
    """The position of the output that a flattened one came from."""
    pairs = zip(case.expected.names, case.expected.arrays, strict=True)
    leaves = [[found for found, _ in flatten([value], [name])] for name, value in pairs]
    return next(position for position, found in enumerate(leaves) if leaf in found)


def _with_failures(tally: Tally) -> Judgement:
    """The judgement, in which a candidate that fails where the reference answers is a mismatch."""
    if tally.judgement is None and not tally.failures:
        raise BadData(
            "nothing could be compared: rounding alone moves the NaN or infinite values of every generated input",
            hint="give inputs that the model is meant for with --data FILE",
        )
    judgement = tally.judgement or Judgement(())
    if not tally.failures:
        return judgement
    case, failure = tally.failures[0]
    note = f"the candidate fails on '{case.name}': {failure.reason}"
    failed = [OutputVerdict(name, "mismatch", None, None, 0.0, float("inf"), note=note) for name in case.expected.names]
    return Judgement(tuple(failed)).merge(judgement)
