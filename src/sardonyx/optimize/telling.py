"""The report of a tournament: the same facts for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sardonyx.bench.ratio import Ratio
from sardonyx.compare.optimizer import Doubt
from sardonyx.deadline import OUT_OF_TIME
from sardonyx.measuring import busy, out_of_time
from sardonyx.model import Model
from sardonyx.optimize.entry import INPUT, Entry
from sardonyx.optimize.passes._rewrite import Note
from sardonyx.optimize.tuning import Tuned
from sardonyx.report import Finding, Report, Table, human_bytes
from sardonyx.run.session import LEVEL_KEY

NOTHING = (
    "nothing was tried: to start, and to let the model answer what candidates are compared on, took half of the time"
)


def tell(
    output: Path,
    winner: Entry,
    entries: Sequence[Entry],
    gain: Ratio,
    tuned: Tuned | None,
    *,
    before: Entry,
    explain: bool,
    level: str,
    doubt: Doubt | None,
    answered: bool,
    seconds: tuple[float, float],
    others: float | None,
) -> Report:
    """The report. `answered` says whether the input itself answered in time, `others` how busy the machine was.

    `seconds` are those that were asked for and those that it took.
    """
    notes = _notes(entries)
    settings = {} if tuned is None else tuned.settings.tuned
    better = winner.name != INPUT or bool(settings)
    fields: dict[str, Any] = {
        "path": str(output), "winner": winner.name, "level": level,
        "nodes_before": before.nodes, "nodes_after": winner.nodes,
        "bytes_before": before.bytes, "bytes_after": winner.bytes,
        "speedup": gain.to_dict(), "candidates": [entry.to_dict() for entry in entries],
        "seconds": {"asked": seconds[0], "taken": seconds[1]}, "others": others,
    }  # fmt: skip
    if tuned is not None:
        fields |= {
            "settings": settings,
            "tuning": {
                "speedup": None if tuned.speedup is None else tuned.speedup.to_dict(),
                "trials": [trial.to_dict() for trial in tuned.trials],
            },
        }
    if explain:
        fields["passes"] = [note.to_dict() for note in notes]
    tables = [_candidates(entries), *([_tuning(tuned)] if tuned else []), *(_explained(notes) if explain else [])]
    return Report(
        "optimize", "optimized" if better else "unchanged", True, fields,
        (*_findings(doubt, winner), *out_of_time(_late(entries, tuned, answered), "give more --seconds"), *busy(others)),
        tuple(tables), summary=_summary(output, winner, entries, before, gain, tuned), artifacts={"model": Model.load(output)},
    )  # fmt: skip


def _findings(doubt: Doubt | None, winner: Entry) -> tuple[Finding, ...]:
    """What onnxruntime's optimiser did to the input, with what the output does about it."""
    if doubt is None:
        return ()
    hint = doubt.option
    if doubt.level != "all" and winner.level is None:
        hint = f"use the output: the graph by {winner.name} is right with onnxruntime's defaults; the input is not"
    elif doubt.level != "all":
        hint = f"the output says so in its metadata ('{LEVEL_KEY}'), which sardonyx honours; elsewhere {hint}"
    return (doubt.finding(hint),)


def _late(entries: Sequence[Entry], tuned: Tuned | None, answered: bool) -> list[str]:
    """What was not tried, in words."""
    names = [entry.name for entry in entries if entry.verdict == "not-tried"]
    settings = [trial.label for trial in tuned.trials if trial.reason == OUT_OF_TIME] if tuned else []
    late = [
        f"{', '.join(words)} {'was' if len(words) == 1 else 'were'} not tried" for words in (names, settings) if words
    ]
    return late if answered else [NOTHING]


def _notes(entries: Sequence[Entry]) -> list[Note]:
    """Those of our own passes: of the winner, else of the first candidate that has any."""
    noted = sorted((entry for entry in entries if entry.notes), key=lambda entry: entry.verdict != "winner")
    return noted[0].notes if noted else []


def _candidates(entries: Sequence[Entry]) -> Table:
    rows = tuple(
        (
            entry.name,
            entry.verdict,
            entry.nodes,
            None if entry.bytes is None else human_bytes(entry.bytes),
            "" if entry.speedup is None else str(entry.speedup),
            entry.reason,
        )
        for entry in entries
    )
    return Table("candidates", ("candidate", "verdict", "nodes", "size", "times faster", "note"), rows)


def _tuning(tuned: Tuned) -> Table:
    kept = tuned.settings.tuned
    rows = tuple(
        (
            trial.setting,
            trial.value,
            "" if trial.speedup is None else str(trial.speedup),
            "yes" if kept.get(trial.setting) == trial.value else "no",
            trial.reason,
        )
        for trial in tuned.trials
    )
    return Table("settings", ("setting", "value", "times faster", "kept", "note"), rows)


def _explained(notes: Sequence[Note]) -> list[Table]:
    """What the passes did and where they declined, equal notes counted, with one node as an example."""
    counts = Counter((note.rewrite, note.done, note.reason) for note in notes)
    example = {(note.rewrite, note.done, note.reason): note.node for note in reversed(notes)}
    tables = []
    for title, done in (("what the passes did", True), ("what they declined", False)):
        rows = tuple(
            (key[0], count, example[key], key[2])
            for key, count in sorted(counts.items(), key=lambda item: (item[0][0], -item[1]))
            if key[1] is done
        )
        if rows:
            tables.append(Table(title, ("pass", "times", "for example", "what" if done else "why"), rows))
    return tables


def _summary(
    output: Path, winner: Entry, entries: Sequence[Entry], before: Entry, gain: Ratio, tuned: Tuned | None
) -> str:
    tried = [entry for entry in entries if entry.name != INPUT and entry.verdict != "not-tried"]
    if winner.name == INPUT and not tried and len(entries) > 1:
        parts = [f"{output}: the input as it is, for want of time"]
    elif winner.name == INPUT:
        parts = [f"{output}: no candidate is better than the input"]
    else:
        speed = {"faster": f"{gain} times faster", "slower": "slower", "no-difference": "no difference in speed shown"}
        parts = [f"{output} by {winner.name}: {before.nodes} -> {winner.nodes} nodes, {speed[gain.verdict]}"]
    if tuned is not None:
        chosen = ", ".join(f"{name}={value}" for name, value in tuned.settings.tuned.items())
        parts.append(
            f"settings {chosen}: {tuned.speedup} times faster" if chosen else "the default settings are the best"
        )
    return "; ".join(parts)
