"""How files of arrays are cut into parts that can be run one by one: by rows, and only where rows keep apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays
from sardonyx.agreement import for_rounding, judge
from sardonyx.arrays import Rows
from sardonyx.dataset import misfit, named
from sardonyx.errors import BadData, SardonyxError
from sardonyx.run.session import Session
from sardonyx.samples import repeats
from sardonyx.signature import Arrays, Signature

PART_ROWS = 256
# The inputs that are cut into rows, and those that go into every part whole.
Opened = tuple[dict[str, Rows], Arrays]


@dataclass(frozen=True)
class Part:
    """Rows of one file. A `stop` of -1 means all of it, rows or not."""

    file: int
    path: str
    start: int
    stop: int


def cut_files(session: Session, sources: list[Path], label: str | None = None) -> tuple[list[Part], bool]:
    """The parts of all files, in order, and whether files were cut at all. What `label` names in them is no input."""
    found = [open_inputs(source, session.signature, label) for source in sources]
    cut = all(_fixed(session.signature, rows) or _keeps_apart(session, (rows, whole)) for rows, whole in found)
    parts = []
    for index, (source, (rows, _)) in enumerate(zip(sources, found, strict=True)):
        length, fixed = _length(rows, source), _fixed(session.signature, rows)
        if fixed and length is not None and length % fixed:
            raise BadData(
                f"{source} holds {length} examples, and the model takes {fixed} at a time",
                hint="give a number of examples that it divides",
            )
        spans = [(0, -1)] if not cut or length is None else _spans(length, fixed or PART_ROWS)
        parts += [Part(index, str(source.resolve()), start, stop) for start, stop in spans]
    return parts, cut


def open_inputs(source: Path, signature: Signature, label: str | None = None) -> Opened:
    """The inputs that are cut into rows, and those that go into every part whole. Their first rows must fit the model."""
    found = named(arrays.open_arrays(source), signature, label=label, ignored=True, where=str(source))
    inputs = found.inputs
    specs = {spec.name: spec for spec in signature.inputs}
    rows = {name: held for name, held in inputs.items() if held.shape and not repeats(specs.get(name), held.shape)}
    whole = {name: np.asarray(held[...]) for name, held in inputs.items() if name not in rows}
    problems = found.problems or signature.try_fit(rows_of((rows, whole), 0, _fixed(signature, rows) or 1))[1]
    if problems:
        raise misfit(signature, problems, found.spare, what=str(source))
    return rows, whole


def rows_of(found: Opened, start: int, stop: int) -> Arrays:
    """The inputs of a part."""
    rows, whole = found
    span = slice(start, stop) if stop >= 0 else ...
    return whole | {name: np.asarray(held[span]) for name, held in rows.items()}


def _spans(length: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, length)) for start in range(0, length, step)] or [(0, 0)]


def _fixed(signature: Signature, rows: Mapping[str, Rows]) -> int:
    """The rows that the model takes at a time; 0 where it takes any number."""
    firsts = (spec.shape[0] for spec in signature.inputs if spec.shape and spec.name in rows)
    return next((first for first in firsts if isinstance(first, int)), 0)


def _length(rows: Mapping[str, Rows], source: Path) -> int | None:
    lengths = {name: held.shape[0] for name, held in rows.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{name} has {length} examples" for name, length in lengths.items())
        raise BadData(f"{source}: the lengths differ: {words}", hint="give every input as many examples")
    return next(iter(lengths.values()), None)


def _keeps_apart(session: Session, inputs: Opened) -> bool:
    """Whether a row's answer is the same alone and beside others, found out on the first rows."""
    length = min((held.shape[0] for held in inputs[0].values()), default=0)
    if length < 2:
        return True
    count = min(8, length)
    try:
        together = session(rows_of(inputs, 0, count))
        alone = [session(rows_of(inputs, index, index + 1)) for index in range(count)]
    except SardonyxError:  # the model wants another number of rows: let it have them all
        return False
    return all(_same(together[name], [each[name] for each in alone]) for name in together)


def _same(together: Any, alone: list[Any]) -> bool:
    """Whether the rows run together are those run one by one. Kernels may add up in another order."""
    if not all(isinstance(value, np.ndarray) and value.ndim and len(value) == 1 for value in alone):
        return False
    if any(value.shape != alone[0].shape for value in alone):
        return False
    joined = [np.concatenate(alone)]
    return judge(joined, [together], for_rounding(joined)).verdict != "mismatch"
