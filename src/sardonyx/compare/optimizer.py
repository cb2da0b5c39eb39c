"""Does onnxruntime's own graph optimiser change a model's answers? If so, which answer is right, and how to run the model.

The optimiser has faults: onnxruntime 1.31 multiplies a transposed matrix with a vector wrongly once it has fused the two. A
session with all optimisations off is the reference, and another runtime decides where the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sardonyx.agreement import Judgement, for_rounding, judge
from sardonyx.compare.cases import Case
from sardonyx.compare.graph_noise import measure
from sardonyx.compare.opinion import opinions
from sardonyx.compare.sides import PLAIN, OnnxSide
from sardonyx.errors import RuntimeRefused
from sardonyx.model import Model
from sardonyx.report import Finding
from sardonyx.run.session import LEVELS
from sardonyx.signature import Arrays
from sardonyx.sources import Failure, Outputs

CODES = {"runtime-optimizer": "onnxruntime's graph optimiser changes the model's answers by more than rounding."}

# The levels that are tried in the place of `all`, the fastest first.
LOWER = ("extended", "basic", PLAIN)
# Another runtime sides with the answer that is so many times nearer to its own.
NEARER = 10.0

# The judgement of one of several answers, by its index; None where nothing can be said about the case.
Judging = Callable[[int, Sequence[Sequence[Any]]], Judgement | None]


@dataclass(frozen=True)
class Doubt:
    """An output that the optimiser changes, on which case and by how much, and the runtime that says which answer is right.

    `level` is the highest at which onnxruntime gives the right answers: `all` where only the unoptimised session is wrong.
    """

    output: str
    case: str
    why: str
    level: str
    confirmed_by: str = ""

    @property
    def reference(self) -> str:
        return "the optimised session" if self.level == "all" else "the unoptimised session"

    @property
    def message(self) -> str:
        by = f"confirmed by {self.confirmed_by}" if self.confirmed_by else "no other runtime here could decide"
        where = f"{self.output} on '{self.case}'" if self.output else f"on '{self.case}'"
        changes = f"onnxruntime's graph optimiser changes this model's answers, {where}: {self.why}"
        return f"{changes}; reference: {self.reference}, {by}"

    @property
    def option(self) -> str:
        """What to do for those who open sessions themselves."""
        return f"open its sessions with graph_optimization_level = GraphOptimizationLevel.{LEVELS[self.level].name}"

    def finding(self, hint: str = "") -> Finding:
        hint = hint or f"{self.option}, or let sardonyx optimize write a model that is right"
        return Finding("warning", "runtime-optimizer", self.output, self.message, hint)


def find_doubt(
    side: OnnxSide,
    cases: Sequence[Case],
    answers: Sequence[Outputs | Failure],
    judging: Judging,
    *,
    confirmed_by: str = "",
) -> Doubt | None:
    """What of the side's answers is not rounding beside what the plain side gave in the cases; None if all of it is.

    `judging` is asked only where an answer differs by more than what is rounding in any model. Other runtimes are asked
    unless the plain answers are `confirmed_by` something already.
    """
    if side.plain.level == side.level:
        return None
    found = _first_fault(cases, answers, judging)
    if found is None or not _repeats(side.plain, cases[found[0]]):
        return None
    index, output, why = found
    plain = cases[index].expected
    right, by = (plain, confirmed_by) if confirmed_by else decide(side, cases[index], answers[index])
    level = "all"
    if right is plain:
        batches = [case.inputs for case in cases]
        level = right_level(side, batches, lambda found: _first_fault(cases, found, judging) is None) or PLAIN
    return Doubt(output, cases[index].name, why, level, by)


def doubt_on(source: Model | Path, batches: Sequence[Arrays], *, memory: int = 1 << 30) -> Doubt | None:
    """What onnxruntime's optimiser changes of a model's answers to these batches; None if nothing, or rounding alone."""
    side = OnnxSide.of(source)
    plain = zip(batches, ask(side.plain, batches), strict=True)
    cases = [
        Case(f"batch {index}", batch, answer, generated=False)
        for index, (batch, answer) in enumerate(plain)
        if isinstance(answer, Outputs)
    ]

    def judging(index: int, actual: Sequence[Sequence[Any]]) -> Judgement | None:
        case, mine = cases[index], actual[index]
        noise = measure(side.graph(), [case.inputs], [case.expected.arrays], others=[mine], memory=memory)
        if not noise.stable[0]:  # rounding alone moves its NaN or infinite values
            return None
        return judge(case.expected.arrays, mine, noise.tolerances[0], names=case.expected.names)

    return find_doubt(side, cases, ask(side, [case.inputs for case in cases]), judging)


def ask(side: OnnxSide, batches: Sequence[Arrays]) -> list[Outputs | Failure]:
    """The side's answers. A session that does not open fails on every batch."""
    try:
        return side.predict(batches)
    except RuntimeRefused as error:
        return [Failure(error.message)] * len(batches)


def equal_when_plain(
    side: OnnxSide, cases: Sequence[Case], actual: Sequence[Sequence[Any]], ordered: Callable[[int, Outputs], list[Any]]
) -> set[int]:
    """The cases that the plain side answers bit by bit as expected, of those where the side's actual answers are not equal.

    There the two models are the same, and what is left is between onnxruntime's optimiser and rounding. `ordered` puts an
    answer to the case with this index into the order of the expected one.
    """
    differing = [i for i, case in enumerate(cases) if judge(case.expected.arrays, actual[i]).verdict != "equal"]
    if not differing or side.plain.level == side.level:
        return set()
    answers = ask(side.plain, [cases[index].inputs for index in differing])
    return {
        index
        for index, answer in zip(differing, answers, strict=True)
        if isinstance(answer, Outputs)
        and judge(cases[index].expected.arrays, ordered(index, answer)).verdict == "equal"
    }


def decide(side: OnnxSide, case: Case, optimised: Outputs | Failure) -> tuple[Outputs | Failure, str]:
    """Which answer to the case is right, and the other runtime that says so; the plain one where none can say."""
    for runtime, answer in opinions(side.source, case.inputs, case.expected.names):
        near, far = _distance(case.expected, answer), _distance(optimised, answer)
        if near * NEARER < far or far * NEARER < near:
            return (case.expected if near < far else optimised), runtime
    return case.expected, ""


def _first_fault(
    cases: Sequence[Case], answers: Sequence[Outputs | Failure], judging: Judging
) -> tuple[int, str, str] | None:
    """The case, the output and the words of the first answer that is not the expected one."""
    actual = [answer.arrays if isinstance(answer, Outputs) else () for answer in answers]
    for index, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        if isinstance(answer, Failure):
            return index, "", f"it fails: {answer.reason}"
        expected = case.expected
        judged = judge(expected.arrays, answer.arrays, for_rounding(expected.arrays), names=expected.names)
        found = judging(index, actual) if judged.verdict == "mismatch" else None
        if found is not None and found.verdict == "mismatch":
            worst = max(found.outputs, key=lambda output: output.used)
            error = worst.note or f"off by {worst.max_abs:.3g}, where {worst.tolerance:.3g} is rounding"
            return index, worst.name, error
    return None


def _repeats(plain: OnnxSide, case: Case) -> bool:
    """Whether the plain side gives the same answer again. One that draws random numbers does not, and proves nothing."""
    (again,) = ask(plain, [case.inputs])
    return isinstance(again, Outputs) and judge(case.expected.arrays, again.arrays).verdict == "equal"


def right_level(
    side: OnnxSide, batches: Sequence[Arrays], agree: Callable[[list[Outputs | Failure]], bool]
) -> str | None:
    """The highest level below `all` at which the side's answers agree; None where they do so at none."""
    return next((level for level in LOWER if agree(ask(replace(side, level=level), batches))), None)


def _distance(one: Outputs | Failure, other: Sequence[Any]) -> float:
    """How far two answers are apart, in what is rounding in any model; infinitely far where one of them is none."""
    if isinstance(one, Failure):
        return float("inf")
    return judge(one.arrays, other, for_rounding(one.arrays)).used
