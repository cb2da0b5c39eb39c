"""The report of inspect: everything that was counted, as fields for programs and tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from sardonyx.errors import UsageError
from sardonyx.inspect.costs import Costs, costs
from sardonyx.inspect.facts import Fact, Shape, operator_name
from sardonyx.inspect.functions import written_out
from sardonyx.inspect.graph_text import graph_text
from sardonyx.inspect.memory import Memory, activations
from sardonyx.inspect.shapes import Walk
from sardonyx.inspect.tables import notes, sentence, tables
from sardonyx.inspect.weights import Weight, learned_attributes, weights
from sardonyx.model import Model
from sardonyx.report import Report
from sardonyx.signature import Signature, TensorSpec, dtype_name


@dataclass(frozen=True)
class Anatomy:
    """All that was counted of one model."""

    model: Model
    sizes: dict[str, int]
    walk: Walk
    graph: ir.Graph
    weights: list[Weight]
    costs: Costs
    memory: Memory

    @property
    def parameters(self) -> int:
        return sum(weight.parameters for weight in self.weights) + learned_attributes(self.model.ir)


def summarize(model: Model, *, sizes: Mapping[str, int], top: int, graph: bool = False) -> Report:
    """What the model is made of and what it costs with dynamic dimensions of these sizes; with `graph`, the graph itself."""
    found = dissect(model, sizes)
    fields = {**_identity(found), **_counted(found), "tensors": _biggest(found, top)}
    if graph:
        text = graph_text(model)
        return Report("inspect", "ok", True, {**fields, "graph": text}, summary=sentence(fields), listing=text)
    return Report("inspect", "ok", True, fields, notes(fields), tables(fields), sentence(fields))


def dissect(model: Model, sizes: Mapping[str, int]) -> Anatomy:
    """The model walked once, with every count."""
    shapes, known = bound(model.signature, sizes)
    expanded = written_out(model.ir)
    walk = Walk(expanded, shapes, known)
    return Anatomy(
        model,
        known,
        walk,
        expanded.graph,
        weights(model.ir),
        costs(walk.steps),
        activations(walk.steps, expanded.graph.outputs),
    )


def bound(signature: Signature, sizes: Mapping[str, int]) -> tuple[dict[str, Shape], dict[str, int]]:
    """The shape of each input with a size for every dynamic dimension, and the sizes by name, or by place without one."""
    places = {
        f"{spec.name}.{axis}": (spec.name, axis, dim)
        for spec in signature.inputs
        for axis, dim in enumerate(spec.shape or ())
        if not isinstance(dim, int)
    }
    named = [dim or place for place, (_, _, dim) in places.items()]
    unknown = [name for name in sizes if name not in places and name not in named]
    if unknown:
        listed = ", ".join(dict.fromkeys(named)) or "none: every dimension is fixed"
        raise UsageError(
            f"the model has no dynamic dimension {', '.join(unknown)}", hint=f"its dynamic dimensions: {listed}"
        )
    shapes = signature.shapes(sizes)
    known = {dim or place: shapes[name][axis] for place, (name, axis, dim) in places.items()}
    return {spec.name: shapes[spec.name] for spec in signature.inputs if spec.shape is not None}, known


def _identity(found: Anatomy) -> dict[str, Any]:
    model = found.model
    return {
        "path": None if model.path is None else str(model.path),
        "inputs": _ends(model.signature.inputs, found.graph.inputs, found.walk),
        "outputs": _ends(model.signature.outputs, found.graph.outputs, found.walk),
        "opset": model.opset,
        "opsets": {domain or "ai.onnx": version for domain, version in model.ir.opset_imports.items()},
        "ir_version": model.ir_version,
        "producer": " ".join(filter(None, (model.ir.producer_name, model.ir.producer_version))) or None,
        "functions": len(model.ir.functions),
        "history": [step.verb for step in model.history],
        "sizes": found.sizes,
    }


def _counted(found: Anatomy) -> dict[str, Any]:
    nodes = Counter(operator_name(node) for node in found.graph.all_nodes())
    operators = [
        {"operator": name, "count": count, "macs": found.costs.macs[name], "bytes": found.costs.bytes[name]}
        for name, count in nodes.items()
    ]
    facts = [found.walk.fact(value) for value in found.graph.inputs if value.name not in found.graph.initializers]
    return {
        "parameters": found.parameters,
        "macs": found.costs.total,
        "macs_exact": not found.costs.uncounted and not found.costs.loops_once,
        "uncounted": [
            {"node": step.node.name or "", "operator": operator_name(step.node)} for step in found.costs.uncounted
        ],
        "empty": found.costs.empty,
        "loops_once": found.costs.loops_once,
        "branches": found.costs.choices,
        "nodes": nodes.total(),
        "operators": sorted(operators, key=lambda row: (-row["macs"], -row["bytes"], -row["count"], row["operator"])),
        "memory": {
            "weights": sum(weight.nbytes for weight in found.weights),
            "inputs": sum(fact.nbytes or 0 for fact in facts),
            "activations_peak": found.memory.peak,
            "activations_total": found.memory.total,
            "peak_node": found.memory.peak_at.name if found.memory.peak_at is not None else None,
            "unsized": found.memory.unsized,
        },
    }


def _ends(specs: Iterable[TensorSpec], values: Iterable[ir.Value], walk: Walk) -> list[dict[str, Any]]:
    facts = {value.name: walk.fact(value) for value in values}
    return [{**spec.to_dict(), "sizes": _listed(facts.get(spec.name))} for spec in specs]


def _listed(fact: Fact | None) -> list[int | None] | None:
    return None if fact is None or fact.shape is None else list(fact.shape)


def _biggest(found: Anatomy, top: int) -> list[dict[str, Any]]:
    rows = [_tensor(w.name, "weight", w.dtype, w.shape, w.nbytes) for w in found.weights]
    inputs, outputs = set(found.graph.inputs), set(found.graph.outputs)
    for value, fact in found.walk.facts.items():
        if fact.constant or fact.nbytes is None or fact.dtype is None or fact.sizes is None:
            continue
        kind = "input" if value in inputs else "output" if value in outputs else "activation"
        rows.append(_tensor(value.name or "", kind, fact.dtype, fact.sizes, fact.nbytes))
    return sorted(rows, key=lambda row: (-row["bytes"], row["name"]))[: max(0, top)]


def _tensor(name: str, kind: str, dtype: ir.DataType, shape: tuple[int, ...], nbytes: int) -> dict[str, Any]:
    return {"name": name, "kind": kind, "dtype": dtype_name(dtype), "shape": list(shape), "bytes": nbytes}
