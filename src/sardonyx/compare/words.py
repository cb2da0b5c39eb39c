"""The report of a comparison: the same facts for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from sardonyx.agreement import Judgement
from sardonyx.compare.localize import Divergence
from sardonyx.compare.sides import QUANTIZED, RANDOM
from sardonyx.report import Finding, Report, Table
from sardonyx.sources import Branch

CODES = {
    "edge-values": "A difference on NaN, infinite, huge or empty inputs, or exactly on a threshold.",
    "unreached": "A branch of the reference's own code that depends on the inputs and that no input took.",
    "class-flips": "Rows whose best class is another one in the candidate.",
    "note": "What was matched or left out, in words.",
    "other-type": "The output has the same values in another type.",
    "quantized": "The candidate is quantised, which is more than rounding.",
    "random": "The candidate draws random numbers, so that no two runs agree.",
    "unstable": "A generated case is left out, because rounding alone moves its NaN or infinite values.",
    "weak-probe": "Rounding alone moves this output by much of its size, so that small faults would not show.",
}

# A tolerance above this share of an output's own size lets much through.
WEAK = 0.02
# Branches that are listed one by one.
LISTED = 20
METHODS = {
    "float64": "noise floor from float64",
    "repeats": "noise floor from repeats",
    "given": "tolerance as given",
    "exact": "equal bit by bit",
    "": "nothing compared",
}


class Seen(Protocol):
    """What the comparison kept besides its judgement."""

    method: str
    cases: int
    notes: list[tuple[str, str, str]]


def report(
    judgement: Judgement,
    found: Divergence | None,
    operators: frozenset[str],
    seen: Seen,
    notes: Sequence[str],
    unreached: Sequence[tuple[Branch, bool]] = (),
) -> Report:
    findings = (
        *_findings(judgement, operators, seen),
        *(Finding("info", "note", "", note) for note in notes),
        *map(unreached_finding, unreached[:LISTED]),
    )
    fields = {
        "outputs": [output.to_dict() for output in judgement.outputs],
        "first_divergence": None if found is None else found.to_dict(),
        "noise": seen.method,
        "cases": seen.cases,
        "unreached": [
            {"file": branch.file, "line": branch.line, "text": branch.text, "outcome": missed}
            for branch, missed in unreached
        ],
    }
    return Report(
        "compare", judgement.verdict, judgement.verdict != "mismatch", fields, findings, _tables(judgement, found),
        summary=_summary(judgement, found, seen), artifacts={"judgement": judgement, "divergence": found},
    )  # fmt: skip


def unreached_finding(missed: tuple[Branch, bool]) -> Finding:
    """A branch that the search did not get into."""
    branch, outcome = missed
    return Finding(
        "warning", "unreached", f"{branch.file}:{branch.line}",
        f"`{branch.text}` was never {'true' if outcome else 'false'} in the search, so nothing is known about that branch",
        "give inputs that take it with --data",
    )  # fmt: skip


def _tables(judgement: Judgement, found: Divergence | None) -> tuple[Table, ...]:
    rows = tuple(
        (
            output.name,
            output.verdict,
            None if output.max_abs is None else output.error,
            None if output.max_abs is None else output.tolerance,
            "" if output.max_abs is None else f"{output.share_used:.1%}",
            output.max_rel,
            output.note,
        )
        for output in judgement.outputs
    )
    columns = ("output", "verdict", "error", "tolerance", "used", "max rel", "note")
    tables = [Table("outputs, each at the element that used most of its tolerance", columns, rows)]
    if found is not None:
        facts: list[tuple[str, object]] = [
            ("node", found.node),
            ("operator", found.op_type),
            ("tensor", found.tensor),
        ]
        facts += [
            ("source", found.source),
            ("in the reference", found.reference_node),
            ("why", found.why),
            ("error there", found.max_abs),
        ]
        shown = tuple((name, value) for name, value in facts if value not in (None, ""))
        tables.append(Table("first divergence", ("what", "value"), shown))
    return tuple(tables)


def _findings(judgement: Judgement, operators: frozenset[str], seen: Seen) -> Iterator[Finding]:
    for output in judgement.outputs:
        if output.flips:
            yield Finding("info", "class-flips", output.name, f"{output.flips} rows change their best class")
        if output.note and output.verdict != "mismatch":
            yield Finding("warning", "other-type", output.name, output.note)
        if WEAK < output.weak < math.inf and seen.method != "given":
            yield Finding(
                "warning", "weak-probe", output.name,
                f"rounding alone moves this output by {output.weak:.0%} of its size, so small faults would not show",
                "give inputs that the model is meant for with --data",
            )  # fmt: skip
    for code, where, message in seen.notes:
        yield Finding("info", code, where, message)
    if operators & RANDOM:
        yield Finding(
            "warning", "random", "", f"the candidate draws random numbers ({', '.join(sorted(operators & RANDOM))})"
        )
    if judgement.verdict == "mismatch" and seen.method != "given" and operators & QUANTIZED:
        yield Finding(
            "info", "quantized", "", "the candidate is quantised, which is more than rounding",
            "say how much it may differ with --rtol and --atol, or judge it by its task with sardonyx quantize",
        )  # fmt: skip


def _summary(judgement: Judgement, found: Divergence | None, seen: Seen) -> str:
    how = f"{len(judgement.outputs)} outputs, {seen.cases} cases, {METHODS[seen.method]}"
    if judgement.verdict == "mismatch" and found is not None:
        return f"first at {found.op_type} {found.node} ({how})"
    if judgement.verdict == "rounding":
        return f"at most {judgement.used:.0%} of the tolerance ({how})"
    return f"({how})"
