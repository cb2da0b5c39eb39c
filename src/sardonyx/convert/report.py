"""The report of a conversion: how every route ended, how far the search reached, and what to know about the winner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sardonyx import reach
from sardonyx.compare.words import LISTED, unreached_finding
from sardonyx.convert.candidate import Candidate
from sardonyx.convert.contender import Contender
from sardonyx.convert.counterexample import reproduction, save_counterexample
from sardonyx.convert.spent import Spent
from sardonyx.falsify import Search
from sardonyx.model import Model
from sardonyx.report import Finding, Report, Table
from sardonyx.sources import PROGRAMS, SANDBOX, Branch, Source, Steadiness, is_program

CODES = {
    "unreached": "A branch of the model's own code that depends on the inputs and that no probe took.",
    "unreached-leaves": "Leaves of the model's trees for which no row could be made.",
    "edge-values": "The export differs on NaN, infinite, huge or empty inputs, for which the original has no code of its own.",
    "random-original": "The original draws random numbers, so that no export can agree with it.",
    "stateful-original": "The original carries a state from call to call, which an ONNX model does not.",
    "weak-proof": "Rounding alone moves an output by much of its size, so that agreement says little about it.",
    "frozen-path": "The exporter took a decision on values once and for all.",
    "frozen-input": "The exporter took the value of an input as a constant, so that the model no longer has it.",
    "training-parts": "Parts of a PyTorch model that were in training mode, and were converted in evaluation mode.",
    "size-not-shown": "Nothing in an estimator shows how large some columns are, so that float32 may be too coarse for them.",
    "sandboxed": "The source is a program, and was opened and run in a sandbox because --trust was not given.",
    "neighbour-ties": "The model counts neighbours, and of equally far ones each library takes others.",
    "not-tried": "Inputs that were not tried because the original takes long to answer.",
}

# What PyTorch's recorder and ours say of a value that became a constant, and code that asks for a size.
VALUE_FROZEN = (
    r"Converting a tensor to a Python|Converting a tensor to a NumPy|Iterating over a tensor|gives a Python bool"
)
NAMES_A_SIZE = r"\.shape\b|\.size\(|\blen\(|\.numel\(|\.dim\("
# Plugins and forms of sources that decide in a graph of their own, where Python's branches say nothing.
GRAPHS = ("onnx", "tensorflow", "jax", "torchscript", "program")


@dataclass(frozen=True)
class Outcome:
    """How a tournament ended."""

    source: Source
    output: Path
    candidates: Sequence[Candidate]
    winner: Contender | None
    search: Search
    steadiness: Steadiness
    unproven: Sequence[str]
    description: Mapping[str, Any]  # what the framework says of the original

    @property
    def paths(self) -> Mapping[str, Any]:
        """What an estimator says of the leaves of its trees."""
        return self.description.get("paths") or {}

    @property
    def untaken(self) -> list[tuple[str, bool]]:
        """`If` nodes of the winner, where its graph is all that can be watched: the original's own code is not Python."""
        watched = self.source.plugin in GRAPHS or self.source.form in GRAPHS
        goals = self.winner.goals if watched and self.winner is not None else None
        return [] if goals is None else goals.untaken

    @property
    def frozen(self) -> list[Mapping[str, Any]]:
        """Values that the winner's exporter took once and for all.

        Inputs that take the other outcome may agree by accident, as where one of equal tokens is dropped.
        """
        notes = () if self.winner is None else self.winner.exported.notes.get("frozen") or ()
        on_values = self.search.lines_on_values()
        return [one for one in notes if _of_values(one) or (one["file"], one["line"]) in on_values]

    @property
    def leaves_missed(self) -> int:
        return int(self.paths.get("leaves", 0)) - int(self.paths.get("reached", 0))


def _of_values(frozen: Mapping[str, Any]) -> bool:
    """Whether a value was frozen. Sizes are asked around all that the code names, and constants harm nothing."""
    return re.search(VALUE_FROZEN, frozen["why"]) is not None and re.search(NAMES_A_SIZE, frozen["text"]) is None


def report(outcome: Outcome, spent: Spent) -> Report:
    """`agrees`, `partial` or `no-route-agrees`, with the table of routes."""
    winner = None if outcome.winner is None else outcome.winner.candidate
    saved = {c.route: save_counterexample(c, outcome.output) for c in outcome.candidates}
    table = _table(outcome.candidates, winner)
    unreached = outcome.search.unreached()
    fields: dict[str, Any] = {
        "candidates": [_candidate_field(c, saved[c.route], outcome.source) for c in outcome.candidates],
        "probes": [item.probe.name for item in outcome.search.answered],
        "unreached": [_unreached_field(branch, missed) for branch, missed in unreached],
        "seconds": spent.to_dict() | {"exporters": sum(c.seconds for c in outcome.candidates)},
    }
    if winner is None:
        return Report(
            "convert", "no-route-agrees", False, {"route": None, "path": None, **fields}, (), (table,),
            summary=f"no export of {outcome.source} agrees with it, so none was written",
        )  # fmt: skip
    model = Model.load(outcome.output)
    fields |= {
        "route": winner.route, "path": str(outcome.output), "opset": model.opset, "ir_version": model.ir_version,
        "inputs": [spec.to_dict() for spec in model.signature.inputs],
        "outputs": [spec.to_dict() for spec in model.signature.outputs],
        "repairs": list(winner.repairs),
    }  # fmt: skip
    findings = tuple(_findings(outcome, unreached))
    partial = any((unreached, outcome.untaken, outcome.unproven, outcome.leaves_missed, outcome.frozen))
    summary = f"{outcome.output} by {winner.route}, opset {model.opset}; " + _reach(outcome, unreached)
    return Report(
        "convert", "partial" if partial else "agrees", True, fields, findings, (table,), summary=summary,
        artifacts={"model": model},
    )  # fmt: skip


def unsteady_report(source: Source, steadiness: Steadiness) -> Report:
    """The end of a conversion of a model that answers the same inputs differently: there is nothing to agree with."""
    findings = tuple(_unsteady_findings(steadiness))
    fields: dict[str, Any] = {
        "route": None,
        "path": None,
        "candidates": [],
        "probes": [],
        "unreached": [],
        "seconds": {},
    }
    words = "draws random numbers" if steadiness.random else "carries a state from call to call"
    return Report(
        "convert", "no-route-agrees", False, fields, findings,
        summary=f"{source} {words}, so that no export can agree with it; none was written",
    )  # fmt: skip


def _unsteady_findings(steadiness: Steadiness) -> Iterator[Finding]:
    where = f", on the probe '{steadiness.probe}'" if steadiness.probe else ""
    if steadiness.random:
        yield Finding(
            "error", "random-original", ", ".join(steadiness.random),
            f"other random seeds change {', '.join(steadiness.random)} on the same inputs" + where,
            "switch the randomness off (eval mode, a fixed seed inside, the mean instead of a sample), or pass --allow-random",
        )  # fmt: skip
    if steadiness.state:
        held = f": a call changes {', '.join(steadiness.changes)}" if steadiness.changes else ""
        yield Finding(
            "error", "stateful-original", ", ".join(steadiness.state),
            f"a later call with the same inputs gives other values of {', '.join(steadiness.state)}{where}{held}",
            "pass --state to make it inputs and outputs of the export, or --first-call to export what the first call answers",
        )  # fmt: skip


def _findings(outcome: Outcome, unreached: Sequence[tuple[Branch, bool]]) -> Iterator[Finding]:
    assert outcome.winner is not None, "findings are about what was handed over"
    yield from outcome.winner.candidate.findings
    if is_program(outcome.source):
        yield Finding(
            "info", "sandboxed", str(outcome.source),
            f"it is {PROGRAMS[outcome.source.form]}, a program, and was run in {SANDBOX}",
            "pass --trust for a file that you made yourself, to run it as you would",
        )  # fmt: skip
    yield from reach.findings(outcome.winner.model)
    yield from _unreached_findings(outcome, unreached)
    yield from _frozen_findings(outcome, outcome.winner.exported.notes)
    if outcome.description.get("training"):
        named = ", ".join(outcome.description["training"][:LISTED])
        yield Finding(
            "warning", "training-parts", named,
            "these parts of the original are in training mode, and the export is of evaluation mode",
            "call eval() on the whole model if that is meant; pass --training to keep Dropout and BatchNorm trainable",
        )  # fmt: skip
    yield from _restless_findings(outcome.steadiness)
    if outcome.description.get("ties"):
        yield Finding(
            "info", "neighbour-ties", "",
            "neighbours are counted, and of equally far ones the export may take others than the original does",
        )  # fmt: skip
    if outcome.description.get("unsized"):
        yield Finding(
            "info", "size-not-shown", ", ".join(outcome.description["unsized"][:LISTED]),
            "nothing in the estimator shows how large these are, and the export takes them as float32, which has 7 digits",
            "if they are larger than their spread by far, as dates are, give some with --data, or pass --input NAME=float64[...]",
        )  # fmt: skip


def _unreached_findings(outcome: Outcome, unreached: Sequence[tuple[Branch, bool]]) -> Iterator[Finding]:
    """What the search did not come to."""
    yield from map(unreached_finding, unreached[:LISTED])
    for node, taken in outcome.untaken[:LISTED]:
        yield Finding(
            "warning", "unreached", node, f"no probe took the {'then' if taken else 'else'} branch of this If node",
            "give inputs that take it with --data, or search longer with --search SECONDS",
        )  # fmt: skip
    if outcome.leaves_missed:
        why = f": {outcome.paths['blocked']}" if outcome.paths.get("blocked") else ""
        yield Finding(
            "warning", "unreached-leaves", f"{outcome.paths['leaves']} leaves",
            f"for {outcome.leaves_missed} of the {outcome.paths['leaves']} leaves of the trees no row could be made{why}",
            "give rows that reach more of them with --data",
        )  # fmt: skip
    for name in outcome.unproven:
        yield Finding(
            "warning", "weak-proof", name,
            f"rounding alone moves {name} by more than a tenth of its size, so that agreement proves nothing about it",
            "give inputs that the model is meant for with --data",
        )  # fmt: skip
    if outcome.search.skipped:
        yield Finding(
            "info", "not-tried", "", f"{outcome.search.skipped} inputs were not tried: the original takes long to answer",
            "search longer with --search SECONDS",
        )  # fmt: skip


def _frozen_findings(outcome: Outcome, notes: Mapping[str, Any]) -> Iterator[Finding]:
    """What the exporter took once and for all: a value, or what depends on sizes alone."""
    for frozen in notes.get("frozen") or ():
        open_ = frozen in outcome.frozen
        yield Finding(
            "warning" if open_ else "info", "frozen-path", f"{frozen['file']}:{frozen['line']}",
            f"the exporter took `{frozen['text']}` once, with the example's values"
            + (", and not all of its values can be tried" if open_ else ""),
            "keep it a tensor (torch.where, indexing, gather), or give inputs of every kind with --data" if open_ else "",
        )  # fmt: skip
    for name, value in (notes.get("constants") or {}).items():
        yield Finding(
            "warning", "frozen-input", name, f"forward takes {name} as a Python number, so the export holds it as {value}",
            "make it a tensor if it must stay an input",
        )  # fmt: skip


def _restless_findings(steadiness: Steadiness) -> Iterator[Finding]:
    """Chance and state that the user allows, and state that no answer was seen to depend on."""
    if steadiness.random:
        yield Finding(
            "warning", "random-original", ", ".join(steadiness.random),
            "these outputs are random in the original, and were compared by their mean and spread",
        )  # fmt: skip
    if steadiness.changes and not steadiness.state:
        yield Finding(
            "warning", "stateful-original", ", ".join(steadiness.changes),
            "a call of the original changes these, and an ONNX model keeps nothing from call to call; if a later answer "
            "depends on them, the export does not give it",
        )  # fmt: skip
    if steadiness.state:
        yield Finding(
            "warning", "stateful-original", ", ".join(steadiness.state),
            "the export answers every call as the original answers the first",
        )  # fmt: skip


def _reach(outcome: Outcome, unreached: Sequence[tuple[Branch, bool]]) -> str:
    count = len(outcome.search.answered)
    if unreached:
        return f"no difference found on {count} inputs, but {len(unreached)} branches of the code were not reached"
    if outcome.untaken:
        return f"no difference found on {count} inputs, but {len(outcome.untaken)} branches of the graph were not taken"
    if outcome.frozen:
        return (
            f"no difference found on {count} inputs, but the exporter took {len(outcome.frozen)} lines of the code once"
        )
    if outcome.leaves_missed:
        return (
            f"no difference found on {count} inputs, but {outcome.leaves_missed} leaves of the trees were not reached"
        )
    if outcome.unproven:
        return f"no difference found on {count} inputs, but rounding hides {', '.join(outcome.unproven)}"
    return f"no difference from the original found on {count} inputs"


def _candidate_field(candidate: Candidate, saved: Path | None, source: Source) -> dict[str, Any]:
    """What the JSON says of a candidate; of a wrong one, also three lines of Python that show it."""
    lines = (
        reproduction(source, candidate.route, saved, candidate.counterexample)
        if saved is not None and candidate.counterexample is not None and _compared(candidate.counterexample)
        else []
    )
    return {**candidate.to_dict(saved), "reproduce": lines}


def _compared(counterexample: Mapping[str, Any]) -> bool:
    return any(name.startswith("exported.") for name in counterexample)


def _unreached_field(branch: Branch, missed: bool) -> dict[str, Any]:
    return {"file": branch.file, "line": branch.line, "text": branch.text, "outcome": missed}


def _table(candidates: Sequence[Candidate], winner: Candidate | None) -> Table:
    rows = tuple(
        (c.route, "winner" if c is winner else c.verdict, c.max_error, c.tolerance, c.seconds, c.reason)
        for c in candidates
    )
    return Table("routes", ("route", "verdict", "error", "tolerance", "seconds", "note"), rows)
