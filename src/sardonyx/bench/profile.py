"""Where the time goes inside onnxruntime, node by node, tied to the names of the model's own graph."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from sardonyx import progress
from sardonyx.bench.origins import name_nodes, origins
from sardonyx.bench.ratio import centre
from sardonyx.bench.variants._variant import How
from sardonyx.errors import RuntimeRefused
from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.run.session import Settings, options, plain, provider_name
from sardonyx.signature import Arrays

SECONDS, RUNS, WARM = 1.0, 100, 3
# Their time is that of the nodes inside them, which are listed themselves.
CONTROL = ("If", "Loop", "Scan")
_KERNEL = "_kernel_time"


@dataclass(frozen=True)
class NodeTime:
    """One node of the graph that onnxruntime runs: its seconds in a run, its share of all, and what it came from."""

    name: str
    op_type: str
    seconds: float
    share: float
    came_from: tuple[str, ...]
    provider: str


@dataclass(frozen=True)
class Profile:
    """The nodes of one variant, the slowest first."""

    variant: str
    batch: int
    nodes: tuple[NodeTime, ...]

    def operators(self) -> list[dict[str, Any]]:
        """Count, seconds and share by operator, the slowest first."""
        found: dict[str, list[NodeTime]] = defaultdict(list)
        for node in self.nodes:
            found[node.op_type].append(node)
        rows = [
            {
                "op_type": op_type,
                "count": len(nodes),
                "seconds": sum(n.seconds for n in nodes),
                "share": sum(n.share for n in nodes),
            }
            for op_type, nodes in found.items()
        ]
        return sorted(rows, key=lambda row: -row["seconds"])

    def to_dict(self) -> dict[str, Any]:
        nodes = [
            {"name": node.name, "op_type": node.op_type, "seconds": node.seconds, "share": node.share,
             "from": list(node.came_from), "provider": node.provider}
            for node in self.nodes
        ]  # fmt: skip
        return {"variant": self.variant, "batch": self.batch, "nodes": nodes, "operators": self.operators()}


def profile_model(variant: str, path: Path, inputs: Arrays, how: How, batch: int) -> Profile:
    """Runs the model some more, with onnxruntime's own profiler on, and reads what it wrote."""
    with temporary_folder() as scratch, progress.task(f"profiling {variant}"):
        named = Model.load(path)
        name_nodes(named.ir)
        before, after = scratch / "named.onnx", scratch / "optimised.onnx"
        named.save(before)
        events = _events(before, after, inputs, how)
        came_from = origins(named.ir, Model.load(after).ir) if after.exists() else {}
    return Profile(variant, batch, _nodes(events, came_from))


def _events(before: Path, after: Path, inputs: Arrays, how: How) -> list[dict[str, Any]]:
    settings = Settings(provider=how.provider, threads=how.threads)
    chosen = options(settings)
    chosen.enable_profiling = True
    chosen.profile_file_prefix = os.fspath(before.with_name("profile"))
    chosen.optimized_model_filepath = os.fspath(after)
    try:
        session = ort.InferenceSession(os.fspath(before), chosen, providers=[provider_name(how.provider)])
        started = time.perf_counter()
        for run in range(RUNS + WARM):
            session.run(None, inputs)
            if run >= WARM and time.perf_counter() - started > SECONDS:
                break
        events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    except Exception as error:
        raise RuntimeRefused(f"the model cannot be profiled: {plain(error)}", hint="leave --profile out") from error
    return events


def _nodes(events: list[dict[str, Any]], came_from: dict[str, tuple[str, ...]]) -> tuple[NodeTime, ...]:
    """A typical run's seconds of every node."""
    starts = np.array(sorted(event["ts"] for event in events if event["name"] == "model_run"))[WARM:]
    taken: dict[tuple[str, str, str], Any] = {}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith(_KERNEL):
            continue
        run = int(np.searchsorted(starts, event["ts"], side="right")) - 1
        operator = event["args"].get("op_name", "")
        if run < 0 or operator in CONTROL:
            continue
        key = (event["name"].removesuffix(_KERNEL), operator, event["args"].get("provider", ""))
        taken.setdefault(key, np.zeros(len(starts)))[run] += event["dur"] / 1e6
    seconds = {key: float(centre(values)) for key, values in taken.items()}
    total = sum(seconds.values()) or 1.0
    nodes = [
        NodeTime(
            name, operator, value, value / total, came_from.get(name, ()), provider.removesuffix("ExecutionProvider")
        )
        for (name, operator, provider), value in seconds.items()
    ]
    return tuple(sorted(nodes, key=lambda node: -node.seconds))
