"""One candidate of the tournament: how it was made, what it is, and what became of it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from sardonyx import child, external
from sardonyx.bench.ratio import Ratio
from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.optimize.candidates._form import Way
from sardonyx.optimize.passes._rewrite import Note
from sardonyx.proto import read_proto
from sardonyx.signature import Dim, Signature, dims

INPUT = "input"
# What a third party's optimiser may take of the clock, and of what it says when it fails.
TIMEOUT, WORDS = 300.0, 200

logger = logging.getLogger(__name__)


@dataclass
class Entry:
    """A candidate. `verdict` is `winner`, `not-chosen`, `slower`, `wrong`, `refused` or `not-installed`.

    `level` is how far onnxruntime may change its graph, where its answers are wrong by default.
    """

    name: str
    verdict: str = "not-chosen"
    reason: str = ""
    path: Path | None = None
    portable: bool = True
    nodes: int | None = None
    bytes: int | None = None
    max_error: float | None = None
    speedup: Ratio | None = None
    seconds: float = 0.0
    notes: list[Note] = field(default_factory=list)
    level: str | None = None

    @property
    def standing(self) -> bool:
        return self.verdict == "not-chosen" and self.path is not None

    def out(self, verdict: str, reason: str) -> Entry:
        """Leaves the tournament."""
        self.verdict, self.reason = verdict, reason if len(reason) <= WORDS else reason[: WORDS - 1] + "…"
        return self

    def measured_file(self) -> Entry:
        """With the number of nodes and bytes of what lies at its path."""
        assert self.path is not None, "only a candidate that was made has a file"
        self.nodes, self.bytes = count_nodes(Model.load(self.path)), file_bytes(self.path)
        return self

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "verdict": self.verdict, "reason": self.reason, "portable": self.portable,
            "nodes": self.nodes, "bytes": self.bytes, "max_error": self.max_error,
            "speedup": None if self.speedup is None else self.speedup.to_dict(), "seconds": self.seconds,
        }  # fmt: skip


def make(way: Way, source: Path, folder: Path, level: str) -> Entry:
    """The candidate that a way makes of the model at `source`, checked to be a model with the same inputs and outputs."""
    entry, target = Entry(way.name, portable=way.level == "portable"), folder / f"{way.name}.onnx"
    if not way.installed:
        return entry.out("not-installed", "pip install 'sardonyx[optimize]'")
    started = time.perf_counter()
    try:
        reason = _run(way, source, target, entry)
        if reason:
            return entry.out("refused", reason)
        return _accepted(entry, target, Model.load(source), level)
    except SardonyxError as error:
        return entry.out("refused", error.message)
    finally:
        entry.seconds = time.perf_counter() - started


def count_nodes(model: Model) -> int:
    """The nodes of all graphs."""
    return sum(len(graph) for graph in model.ir.graphs())


def file_bytes(path: Path) -> int:
    """The size of a model's file and of the files that it keeps weights in."""
    outside = {entry.location for entry in external.entries(read_proto(path))}
    return path.stat().st_size + sum((path.parent / name).stat().st_size for name in outside)


def _run(way: Way, source: Path, target: Path, entry: Entry) -> str:
    """Makes the file, or gives the reason why there is none."""
    if way.in_child:
        asked = {"way": way.name, "source": str(source.resolve()), "target": str(target)}
        outcome = child.call(child.module("sardonyx.optimize._worker"), asked, timeout=TIMEOUT, folder=target.parent)
        if outcome.end != "answered":
            return outcome.reason
        return str(outcome.answer["reason"]) or ("" if target.exists() else "it wrote no file")
    try:
        notes = way.make(source, target)
    except SardonyxError:
        raise
    except Exception as error:
        logger.debug("%s failed", way.name, exc_info=True)
        return " ".join(f"{type(error).__name__}: {error}".split())
    if notes is None:
        return "there is nothing for it to do"
    entry.notes = notes
    return ""


def _accepted(entry: Entry, target: Path, source: Model, level: str) -> Entry:
    """The candidate with the input's own names, types and metadata, or out, with the reason."""
    made = Model.load(target)
    reason = interface_change(source.signature, made.signature)
    foreign = sorted(_domains(made.ir) - _domains(source.ir))
    if not reason and level == "portable" and foreign:
        reason = f"it uses operators of {', '.join(foreign)}, which other runtimes do not have"
    if reason:
        return entry.out("refused", reason)
    entry.portable = not foreign
    restore(made, source)
    entry.path = made.save(target)
    return entry.measured_file()


def interface_change(before: Signature, after: Signature) -> str:
    """What is no longer the same for whoever calls the model; empty if nothing is."""
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
