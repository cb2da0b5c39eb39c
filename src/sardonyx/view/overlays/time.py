"""How long each node takes in a run, by onnxruntime's own profiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sardonyx import machine
from sardonyx.bench.origins import name_nodes
from sardonyx.bench.profile import profile_model
from sardonyx.bench.variants._variant import How
from sardonyx.errors import RuntimeRefused
from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.signature import Arrays
from sardonyx.view.overlay import Overlay, Subject


def overlay(subject: Subject) -> Overlay:
    """Seconds for every node that runs. What onnxruntime fused counts once, at the node that gives the fused one its kind."""
    named = Model(subject.model.ir.clone())
    name_nodes(named.ir)
    nodes = list(named.ir.graph.all_nodes())
    inputs = subject.inputs()
    with temporary_folder() as scratch:
        path = named.save(scratch / "named.onnx")
        how = How(threads=subject.threads, provider=subject.provider)
        profile = _profiled(path, inputs, how)
    kinds = {node.name or "": node.op_type for node in nodes}
    seconds, texts = spread(profile["nodes"], kinds)
    places = {node.name or "": index for index, node in enumerate(nodes)}
    threads = subject.threads or machine.threads()
    note = f"{sum(seconds.values()) * 1e3:.3g} ms in all, {threads} thread{'s' * (threads > 1)} of {machine.cpu_name()}"
    return Overlay(
        "time", "Time", "number", {places[name]: value for name, value in seconds.items() if name in places},
        {places[name]: text for name, text in texts.items() if name in places}, unit="s", combine="sum", note=note,
    )  # fmt: skip


def _profiled(path: Path, inputs: Arrays, how: How) -> dict[str, Any]:
    try:
        return profile_model("model", path, inputs, how, batch=0).to_dict()
    except RuntimeRefused as error:
        hint = "give inputs that it takes with --data or --size, or leave --overlay time out"
        raise RuntimeRefused(error.message, hint=hint) from error


def spread(measured: Iterable[Mapping[str, Any]], kinds: Mapping[str, str]) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds by the model's own nodes, and words for those that were fused or added.

    A node whose origins cannot be told exactly names more than its own; those that others stand for are not counted again.
    """
    seconds: dict[str, float] = {}
    texts: dict[str, str] = {}
    taken: set[str] = set()
    for node in sorted(measured, key=lambda node: len(node["from"])):
        sources: Sequence[str] = node["from"] or ([node["name"]] if node["name"] in kinds else [])
        own = [name for name in sources if name not in taken]
        if not sources:
            continue
        main = _main(node["op_type"], own, kinds) if own else sources[-1]
        seconds[main] = seconds.get(main, 0.0) + float(node["seconds"])
        if len(own) > 1:
            texts[main] = f"runs as {node['op_type']}, with {', '.join(name for name in own if name != main)}"
        texts |= {name: f"runs inside {main}" for name in own if name != main}
        taken |= set(own)
    return seconds, texts


def _main(operator: str, sources: Sequence[str], kinds: Mapping[str, str]) -> str:
    """Of the nodes that were fused, the last one whose operator the fused one is named after."""
    fitting = [name for name in sources if kinds.get(name) and kinds[name] in operator]
    return max(reversed(fitting), key=lambda name: len(kinds[name]), default=sources[-1])
