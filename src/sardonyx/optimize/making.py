"""Makes the candidates: third parties each in a process of its own, ours together in one, or here on a small model."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx_ir as ir

from sardonyx import child, progress
from sardonyx.deadline import OUT_OF_TIME, Deadline
from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.optimize.candidates._form import Way, target_of
from sardonyx.optimize.entry import Entry, count_nodes
from sardonyx.optimize.passes._rewrite import Note
from sardonyx.signature import Dim, Signature, dims

# What a third party's optimiser may take of the clock.
TIMEOUT = 300.0
# Optimisers at work beside each other; nothing is timed meanwhile.
AT_ONCE = 2
# Up to so many nodes our own ways take less time here than a process takes to start.
SMALL = 200
STANDS_ASIDE = "there is nothing for it to do"

logger = logging.getLogger(__name__)


def make_all(chosen: Sequence[Way], source: Path, folder: Path, level: str, limit: Deadline) -> list[Entry]:
    """The candidates of all ways, in their order. What is not made at the limit is ended, and not tried."""
    ours = [way for way in chosen if not way.in_child]
    apart = count_nodes(Model.load(source)) > SMALL
    groups = [*([ours] if ours and apart else []), *([way] for way in chosen if way.in_child)]
    with progress.task("optimize", total=len(chosen)) as advance, ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(make, group, source, folder, level, limit, in_child=True) for group in groups]
        made = [] if apart else make(ours, source, folder, level, limit, in_child=False)
        for group in waiting:
            made += group.result()
            advance(len(group.result()), text=f"optimize: {', '.join(entry.name for entry in group.result())}")
    places = {way.name: place for place, way in enumerate(chosen)}
    return sorted(made, key=lambda entry: places[entry.name])


def make(
    ways: Sequence[Way], source: Path, folder: Path, level: str, limit: Deadline, *, in_child: bool
) -> list[Entry]:
    """The candidates that ways make of the model at `source`, checked to be models with the same inputs and outputs.

    They are made one after the other, in a child process or in this one. What is not done at the limit is not tried.
    """
    entries = [Entry(way.name, portable=way.level == "portable") for way in ways]
    able = [(way, entry) for way, entry in zip(ways, entries, strict=True) if way.installed]
    for way, entry in zip(ways, entries, strict=True):
        if not way.installed:
            entry.out("not-installed", "pip install 'sardonyx[optimize]'")
    if in_child and able:
        _make_in_child(able, source, folder, limit)
    elif able:
        for way, entry in able:
            _make_here(way, entry, source, folder, limit)
    for _, entry in able:
        if entry.path is not None:
            _accept(entry, Model.load(source), level, limit)
    return entries


def _make_in_child(able: Sequence[tuple[Way, Entry]], source: Path, folder: Path, limit: Deadline) -> None:
    asked = {"ways": [way.name for way, _ in able], "source": str(source.resolve()), "folder": str(folder)}
    if limit.passed:
        for _, entry in able:
            entry.out("not-tried", OUT_OF_TIME)
        return
    most = min(TIMEOUT, limit.left)
    outcome = child.call(child.module("sardonyx.optimize._worker"), asked, timeout=most, folder=folder)
    for way, entry in able:
        told = outcome.answer.get(way.name)
        if told is None:
            late = outcome.end == "timeout" and most < TIMEOUT
            entry.out(
                *(("not-tried", OUT_OF_TIME) if late else ("refused", outcome.reason or "its process ended before"))
            )
            continue
        entry.seconds, target = told["seconds"], target_of(way.name, folder)
        if told["reason"] or not target.exists():
            entry.out("refused", told["reason"] or ("it wrote no file" if way.in_child else STANDS_ASIDE))
            continue
        entry.path, entry.notes = target, [Note(*note) for note in told["notes"] or ()]


def _make_here(way: Way, entry: Entry, source: Path, folder: Path, limit: Deadline) -> None:
    if limit.passed:
        entry.out("not-tried", OUT_OF_TIME)
        return
    started, target = time.perf_counter(), target_of(way.name, folder)
    try:
        notes = way.make(source, target)
    except SardonyxError as error:
        entry.out("refused", error.message)
        return
    except Exception as error:
        logger.debug("%s failed", way.name, exc_info=True)
        entry.out("refused", " ".join(f"{type(error).__name__}: {error}".split()))
        return
    entry.seconds = time.perf_counter() - started
    if notes is None:
        entry.out("refused", STANDS_ASIDE)
        return
    entry.path, entry.notes = target, notes


def _accept(entry: Entry, source: Model, level: str, limit: Deadline) -> None:
    """Gives the candidate the input's own names, types and metadata, or puts it out, with the reason."""
    assert entry.path is not None, "only a candidate that was made is looked at"
    target, entry.path = entry.path, None
    if limit.passed:
        entry.out("not-tried", OUT_OF_TIME)
        return
    try:
        made = Model.load(target)
        reason = interface_change(source.signature, made.signature)
        foreign = sorted(_domains(made.ir) - _domains(source.ir))
        if not reason and level == "portable" and foreign:
            reason = f"it uses operators of {', '.join(foreign)}, which other runtimes do not have"
        if reason:
            entry.out("refused", reason)
            return
        entry.portable = not foreign
        restore(made, source)
        entry.path = made.save(target)
        entry.measured_file()
    except SardonyxError as error:
        entry.path = None
        entry.out("refused", error.message)


def interface_change(before: Signature, after: Signature) -> str:
    """What changed in the model's inputs and outputs; empty if nothing did."""
    for word, old, new in (("inputs", before.inputs, after.inputs), ("outputs", before.outputs, after.outputs)):
        if [spec.name for spec in old] != [spec.name for spec in new]:
            return f"its {word} are {', '.join(s.name for s in new)}, not {', '.join(s.name for s in old)}"
        for one, two in zip(old, new, strict=True):
            if one.dtype != two.dtype:
                return f"{one.name} is {two.dtype}, not {one.dtype}"
    for one, two in zip(before.inputs, after.inputs, strict=True):
        if one.shape is not None and two.shape is not None and not _as_free(one.shape, two.shape):
            return f"it fixes {one.name}{dims(one.shape)} to {dims(two.shape)}"
    return ""


def _as_free(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> bool:
    return len(before) == len(after) and all(
        one == two if isinstance(one, int) else not isinstance(two, int) for one, two in zip(before, after, strict=True)
    )


def restore(made: Model, source: Model) -> None:
    """Gives the model back what optimisers drop or change: metadata, names of dimensions, who produced it."""
    made.ir.metadata_props.clear()
    made.ir.metadata_props.update(source.ir.metadata_props)
    made.ir.producer_name, made.ir.producer_version = source.ir.producer_name, source.ir.producer_version
    made.ir.doc_string, made.ir.domain, made.ir.model_version = (
        source.ir.doc_string, source.ir.domain, source.ir.model_version
    )  # fmt: skip
    made.ir.graph.name = source.ir.graph.name
    old = {value.name: value for value in (*source.ir.graph.inputs, *source.ir.graph.outputs)}
    for value in (*made.ir.graph.inputs, *made.ir.graph.outputs):
        if value.name in old:
            value.shape = old[value.name].shape
            value.metadata_props.update(old[value.name].metadata_props)
    unused = set(made.ir.opset_imports) - _domains(made.ir) - {"", "ai.onnx"}
    for domain in unused:
        del made.ir.opset_imports[domain]


def _domains(model: ir.Model) -> set[str]:
    found = {node.domain for graph in model.graphs() for node in graph}
    found |= {node.domain for function in model.functions.values() for node in function.all_nodes()}
    local = {domain for domain, _, _ in model.functions}
    return {"" if domain == "ai.onnx" else domain for domain in found} - local
