"""Which quantised nodes are slower than the float nodes they replace, by onnxruntime's own clock per node."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path

import onnxruntime as ort

from sardonyx.model import Model
from sardonyx.quantize.fusion import owners
from sardonyx.quantize.subject import Variant
from sardonyx.run.session import Settings, options
from sardonyx.signature import Arrays

RUNS = 12
# A node must be this much slower to be taken back: borders between integers and float cost too.
MARGIN = 1.15


def losers(model: Model, variant: Variant, feed: Arrays, settings: Settings) -> frozenset[str]:
    """The products of the plan that take longer on integers than in float."""
    assert variant.plan is not None
    before, after = node_times(model, feed, settings), node_times(variant.model, feed, settings)
    return frozenset(
        name for name in variant.plan.nodes if name in before and name in after and after[name] > MARGIN * before[name]
    )


def node_times(model: Model, feed: Arrays, settings: Settings) -> dict[str, float]:
    """Seconds of each node by its name, the fastest of a few runs."""
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        chosen = options(settings)
        chosen.enable_profiling = True
        chosen.profile_file_prefix = str(Path(scratch) / "profile")
        session = ort.InferenceSession(model.to_proto().SerializeToString(), chosen, providers=["CPUExecutionProvider"])
        for _ in range(RUNS):
            session.run(None, feed)
        events = json.loads(Path(session.end_profiling()).read_text())
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["name"].removesuffix("_kernel_time")].append(event["dur"] / 1e6)
    owner, owned = owners(model), defaultdict[str, float](float)
    for name, found in times.items():
        owned[owner(name)] += min(found)
    return dict(owned)
