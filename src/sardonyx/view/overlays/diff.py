"""What changed from another model: nodes that are new, nodes that changed, and nodes that are computed as before."""

from __future__ import annotations

from collections import Counter

from sardonyx.compare.align import Alignment
from sardonyx.compare.difference import explain
from sardonyx.compare.flow import Flow, Step
from sardonyx.model import Model
from sardonyx.view.overlay import Overlay, Subject, reference
from sardonyx.view.overlays._pairing import aligned

SAME, CHANGED, MOVED, NEW = "same", "changed", "reads other values", "new"


def overlay(subject: Subject) -> Overlay:
    """A word for every node of the main graph, and a sentence for those that changed."""
    mine, theirs = Flow.of(subject.model), Flow.of(reference(subject, "diff"))
    found = aligned(theirs, mine)
    values: dict[int, float | str] = {}
    texts: dict[int, str] = {}
    for step in mine.steps:
        if step.node is None or step.node not in subject.index:
            continue
        place = subject.index[step.node]
        values[place], text = _judged(theirs, mine, step, found)
        if text:
            texts[place] = text
    gone = [step for step in theirs.steps if not set(step.outputs) & set(found.pairs.values())]
    return Overlay("diff", "Difference", "word", values, texts, note=_note(gone, subject.against))


def _judged(theirs: Flow, mine: Flow, step: Step, found: Alignment) -> tuple[str, str]:
    made = next((found.pairs[name] for name in step.outputs if name in found.pairs), "")
    if made not in theirs.producer:
        return NEW, ""
    if all(name in found.same for name in step.outputs if name):
        return SAME, ""
    text = explain(theirs, mine, step, theirs.steps[theirs.producer[made]], found.pairs)
    return (CHANGED, text) if text else (MOVED, "")


def _note(gone: list[Step], against: Model | None) -> str:
    name = against.path.name if against is not None and against.path else "the other model"
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(step.op_type for step in gone).most_common(6))
    return f"against {name}" + (f"; gone: {kinds}" if gone else "")
