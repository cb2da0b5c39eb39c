"""How far each node's result is from the same tensor of a reference: from a bundle's ledger, or from running both models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import progress
from sardonyx.compare.flow import Flow
from sardonyx.compare.partial import Trace
from sardonyx.view.overlay import Overlay, Subject, reference
from sardonyx.view.overlays._pairing import aligned

# Bytes of tensors that are held at a time, of each model.
MEMORY = 1 << 28


def overlay(subject: Subject) -> Overlay:
    """A relative error for every node whose result has a counterpart."""
    if subject.against is None and subject.ledger:
        return from_ledger(subject.ledger, *_described(subject))
    theirs, mine = Flow.of(reference(subject, "error")), Flow.of(subject.model)
    pairs = {name: other for name, other in aligned(theirs, mine).pairs.items() if name in mine.producer}
    errors = _errors(Trace(theirs, {}), Trace(mine, {}), pairs, subject)
    values: dict[int, float | str] = {}
    for name, error in errors.items():
        node = mine.steps[mine.producer[name]].node
        if node is not None and node in subject.index:
            place = subject.index[node]
            values[place] = max(error, float(values.get(place, 0.0)))
    assert subject.against is not None
    against = subject.against.path.name if subject.against.path else "the reference"
    note = f"root mean square of the difference from {against}, over that of the value; one batch"
    return Overlay("error", "Error", "number", values, note=note)


def from_ledger(
    ledger: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], values_of: Sequence[Mapping[str, Any]]
) -> Overlay:
    """The errors of the ledger's last stage, laid on the nodes that make the same tensors."""
    stages = list(ledger.get("stages", ()))
    makers = {
        values_of[number]["name"]: place
        for place, node in enumerate(nodes)
        for number in node["outputs"]
        if number >= 0
    }
    values: dict[int, float | str] = {}
    texts: dict[int, str] = {}
    for row in ledger.get("nodes", ()):
        known = [(stage, row["error"][stage]) for stage in stages if isinstance(row["error"].get(stage), int | float)]
        names = (row.get("tensors", {}).get(stages[-1]), row.get("tensor")) if stages else ()
        place = next((makers[name] for name in names if name in makers), None)
        if place is None or not known:
            continue
        values[place] = float(known[-1][1])
        texts[place] = ", ".join(f"{stage} {error:.2g}" for stage, error in known)
    note = f"relative error against the reference, after {stages[-1]}" if stages else ""
    return Overlay("error", "Error", "number", values, texts, note=note)


def _described(subject: Subject) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes and values as a description of the graph lists them, as far as the ledger needs them."""
    names = [[value.name or "" for value in node.outputs] for node in subject.nodes]
    values = [{"name": name} for own in names for name in own]
    numbers = iter(range(len(values)))
    return [{"outputs": [next(numbers) for _ in own]} for own in names], values


def _errors(theirs: Trace, mine: Trace, pairs: Mapping[str, str], subject: Subject) -> dict[str, float]:
    inputs = subject.inputs()
    mine.inputs = dict(inputs)
    names = dict(zip(mine.flow.inputs, theirs.flow.inputs, strict=True))
    theirs.inputs = {other: inputs[own if other not in inputs else other] for own, other in names.items()}
    sizes = mine.sizes()
    found: dict[str, float] = {}
    wanted = [name for name in pairs if name in sizes]
    with progress.task("following the error", total=len(wanted)) as advance:
        for group in _groups(wanted, sizes):
            own, other = mine.fetch(group), theirs.fetch(pairs[name] for name in group)
            for name in group:
                error = relative(own[name], other[pairs[name]])
                if error is not None:
                    found[name] = error
                advance()
    return found


def relative(value: Any, expected: Any) -> float | None:
    """The difference's root mean square over that of what was expected; None where the two cannot be held together."""
    one, two = np.asarray(value), np.asarray(expected)
    if one.shape != two.shape or not one.size or two.dtype.kind not in "fiu" or one.dtype.kind not in "fiu":
        return None
    one, two = one.astype(np.float64), two.astype(np.float64)
    size = float(np.sqrt(np.mean(np.square(two))))
    gap = float(np.sqrt(np.mean(np.square(one - two))))
    if not np.isfinite(gap) or not np.isfinite(size):
        return None if np.array_equal(one, two, equal_nan=True) is False else 0.0
    return gap / size if size else (0.0 if not gap else float("inf"))


def _groups(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    group: list[str] = []
    held = 0
    for name in names:
        if group and held + sizes[name] > MEMORY:
            yield group
            group, held = [], 0
        group.append(name)
        held += sizes[name]
    if group:
        yield group
