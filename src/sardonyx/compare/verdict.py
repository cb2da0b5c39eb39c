"""compare: runs both sides on the same inputs, judges every output, and looks for the first diverging node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sardonyx.agreement import Judgement, OutputVerdict, Tolerance, flatten, for_rounding, judge
from sardonyx.compare.cases import Case, chunks
from sardonyx.compare.flow import Flow
from sardonyx.compare.localize import Divergence, localize
from sardonyx.compare.noise import Noise, fixed, larger, measure, settle
from sardonyx.compare.optimizer import Doubt, ask, equal_when_plain, find_doubt
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
from sardonyx.compare.standin import stand_in
from sardonyx.compare.words import report
from sardonyx.errors import BadData, InputError, RuntimeRefused
from sardonyx.model import Model
from sardonyx.progress import task
from sardonyx.report import Report
from sardonyx.signature import Arrays
from sardonyx.sources import Failure, Outputs

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
    data: Any,
    rtol: float | None,
    atol: float | None,
    localize: bool,
    memory: int,
    seed: int,
    source_options: Mapping[str, Any],
) -> Report:
    """The report of `sardonyx.compare`."""
    ours = open_candidate(candidate)
    tally = Tally()
    with open_reference(reference, source_options) as theirs:
        pairing = pair(theirs.signature, ours.signature)
        for cases in chunks(theirs, theirs.signature or ours.signature, data, seed):
            _compare(theirs, ours, pairing, cases, (rtol, atol), memory, tally)
        doubt = _doubt(theirs, ours, pairing, tally)
        found, reason = _locate(theirs, ours, pairing, tally, memory) if localize and doubt is None else (None, "")
    judgement = _with_failures(tally)
    told = report(judgement, found, ours.operators, tally, (*pairing.notes, *filter(None, [reason])))
    return told if doubt is None else replace(told, findings=(*(told.findings or ()), doubt.finding()))


def _compare(
    theirs: Side,
    ours: OnnxSide,
    pairing: Pairing,
    cases: Sequence[Case],
    wanted: tuple[float | None, float | None],
    memory: int,
    tally: Tally,
) -> None:
    """Adds the verdicts of these cases to the tally."""
    with task("running the candidate"):
        batches = [pairing.inputs_for_candidate(case.inputs) for case in cases]
        answers = _answers(ours, batches)
    tally.cases += len(cases)
    answered: list[tuple[Case, Arrays, list[Any]]] = []
    for case, batch, answer in zip(cases, batches, answers, strict=True):
        if isinstance(answer, Failure):
            tally.failures.append((case, answer))
        else:
            answered.append((case, batch, pairing.outputs_for_reference(answer, case.expected)))
    if not answered:
        return
    same = _same_graphs(ours, pairing, answered) if theirs.signature is not None else set()
    with task("measuring the noise floor"):
        measured = [
            (case, batch, list(case.expected.arrays) if index in same and _is_rounding(case, actual) else actual)
            for index, (case, batch, actual) in enumerate(answered)
        ]
        noise = _noise(theirs, ours, measured, wanted, memory)
        free_graphs()
    if noise.method != "exact" or not tally.method:
        tally.method = noise.method
    for index, (tolerances, stable) in enumerate(zip(noise.tolerances, noise.stable, strict=True)):
        case, _, actual = measured[index]
        if case.generated and not stable:
            tally.notes.append(("unstable", case.name, "left out: rounding alone moves its NaN or infinite values"))
            continue
        judged = judge(
            case.expected.arrays, actual, tolerances, names=case.expected.names, same_shape=theirs.signature is not None
        )
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


def _noise(
    theirs: Side,
    ours: OnnxSide,
    answered: Sequence[tuple[Case, Arrays, list[Any]]],
    wanted: tuple[float | None, float | None],
    memory: int,
) -> Noise:
    expected = [case.expected.arrays for case, _, _ in answered]
    if wanted != (None, None):
        rtol, atol = wanted
        return fixed("given", Tolerance(atol or 0.0, rtol or 0.0), expected)
    inputs, actual = [case.inputs for case, _, _ in answered], [mine for _, _, mine in answered]
    graph = theirs.graph()
    if graph is not None:
        return measure(graph, inputs, expected, others=actual, memory=memory)
    # An original shows its own rounding, if its framework can compute in float64; its export shows that of the operators.
    own = measure(ours.graph(), [batch for _, batch, _ in answered], actual, others=expected, memory=memory)
    if own.method == "exact":
        return own
    doubles = theirs.predict(inputs, double=True)
    twins = [[double.arrays] if isinstance(double, Outputs) else [] for double in doubles]
    return larger(own, settle("float64", expected, twins))


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
