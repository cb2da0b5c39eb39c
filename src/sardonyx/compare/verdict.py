"""compare: runs both sides on the same inputs, judges every output, and looks for the first diverging node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sardonyx.compare.cases import Case, chunks
from sardonyx.compare.flow import Flow
from sardonyx.compare.judge import Judgement, OutputVerdict, Tolerance, flatten, judge
from sardonyx.compare.localize import Divergence, localize
from sardonyx.compare.noise import Noise, fixed, larger, measure, settle
from sardonyx.compare.sides import INPUTS, OnnxSide, Pairing, Side, open_candidate, open_reference, pair
from sardonyx.compare.words import report
from sardonyx.errors import InputError, RuntimeRefused
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

    def add(self, case: Case, judged: Judgement) -> None:
        self.judgement = judged if self.judgement is None else self.judgement.merge(judged)
        used = min(judged.used, CLEAR)
        if judged.verdict == "mismatch" and used > self.worst_used:
            self.worst, self.worst_used = case, used
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
            _compare(theirs, ours, pairing, cases, (rtol, atol), tally)
        found, reason = _locate(theirs, ours, pairing, tally, memory) if localize else (None, "")
    judgement = _with_failures(tally)
    return report(judgement, found, ours.operators, tally, (*pairing.notes, *filter(None, [reason])))


def _compare(
    theirs: Side,
    ours: OnnxSide,
    pairing: Pairing,
    cases: Sequence[Case],
    wanted: tuple[float | None, float | None],
    tally: Tally,
) -> None:
    """Adds the verdicts of these cases to the tally."""
    with task("running the candidate"):
        batches = [pairing.inputs_for_candidate(case.inputs) for case in cases]
        answers = ours.predict(batches)
    tally.cases += len(cases)
    answered: list[tuple[Case, Arrays, list[Any]]] = []
    for case, batch, answer in zip(cases, batches, answers, strict=True):
        if isinstance(answer, Failure):
            tally.failures.append((case, answer))
        else:
            answered.append((case, batch, pairing.outputs_for_reference(answer, case.expected)))
    if not answered:
        return
    with task("measuring the noise floor"):
        noise = _noise(theirs, ours, answered, wanted)
    tally.method = noise.method
    for (case, _, actual), tolerances, stable in zip(answered, noise.tolerances, noise.stable, strict=True):
        if case.generated and not stable:
            tally.notes.append(("unstable", case.name, "left out: rounding alone moves its NaN or infinite values"))
            continue
        judged = judge(
            case.expected.arrays, actual, tolerances, names=case.expected.names, same_shape=theirs.signature is not None
        )
        tally.add(case, judged)


def _noise(
    theirs: Side,
    ours: OnnxSide,
    answered: Sequence[tuple[Case, Arrays, list[Any]]],
    wanted: tuple[float | None, float | None],
) -> Noise:
    expected = [case.expected.arrays for case, _, _ in answered]
    if wanted != (None, None):
        rtol, atol = wanted
        return fixed("given", Tolerance(atol or 0.0, rtol or 0.0), expected)
    inputs, actual = [case.inputs for case, _, _ in answered], [mine for _, _, mine in answered]
    graph = theirs.graph()
    if graph is not None:
        return measure(graph, inputs, expected, others=actual)
    own = measure(ours.graph(), [batch for _, batch, _ in answered], actual, others=expected)
    doubles = theirs.predict(inputs, double=True)
    twins = [[double.arrays] if isinstance(double, Outputs) else [] for double in doubles]
    return larger(own, settle("float64", expected, twins))


def _locate(theirs: Side, ours: OnnxSide, pairing: Pairing, tally: Tally, memory: int) -> tuple[Divergence | None, str]:
    """The first diverging node, or why it was not found."""
    crashed = [case for case, failure in tally.failures if failure.where != INPUTS]
    case = crashed[0] if crashed else tally.worst
    if case is None:
        return None, ""
    reference = theirs.graph()
    if reference is None:
        return None, "the reference cannot be looked into; to find the node, convert it to ONNX and compare with that"
    wanted = case.expected.names[0] if crashed else _output_of(case, tally.worst_output)
    output = next(mine for mine, other in pairing.outputs.items() if other == wanted)
    try:
        found = localize(
            Flow.of(reference), Flow.of(ours.graph()), case.inputs,
            output=output, inputs_of=pairing.inputs, outputs_of=pairing.outputs, memory=memory,
        )  # fmt: skip
    except (RuntimeRefused, InputError) as error:
        return None, f"the first diverging node was not found: {error.message}"
    return found, ""


def _output_of(case: Case, leaf: str) -> str:
    """The output that a flattened one came from."""
    pairs = zip(case.expected.names, case.expected.arrays, strict=True)
    return next(name for name, value in pairs if leaf in [found for found, _ in flatten([value], [name])])


def _with_failures(tally: Tally) -> Judgement:
    """The judgement, in which a candidate that fails where the reference answers is a mismatch."""
    judgement = tally.judgement or Judgement(())
    if not tally.failures:
        return judgement
    case, failure = tally.failures[0]
    note = f"the candidate fails on '{case.name}': {failure.reason}"
    failed = [OutputVerdict(name, "mismatch", None, None, 0.0, float("inf"), note=note) for name in case.expected.names]
    return Judgement(tuple(failed)).merge(judgement)
