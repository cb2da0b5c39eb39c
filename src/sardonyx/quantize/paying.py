"""Which quantised nodes are slower than the float nodes they replace, by onnxruntime's own clock per node."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort

from sardonyx.deadline import Deadline
from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.quantize.fusion import owners
from sardonyx.quantize.subject import Variant
from sardonyx.run.bounded import compute, load
from sardonyx.run.session import Settings, options
from sardonyx.signature import Arrays

RUNS, RUNS_AT_LEAST = 30, 4
# A node must be this much slower to be taken back: borders between integers and float cost too.
MARGIN = 1.15


def losers(model: Model, variant: Variant, feed: Arrays, settings: Settings, *, limit: Deadline) -> frozenset[str]:
    """The products of the plan that take longer on integers than in float. At the limit a few runs must do."""
    assert variant.plan is not None
    before, after = node_times([model, variant.model], feed, settings, limit=limit)
    return frozenset(
        name for name in variant.plan.nodes if name in before and name in after and after[name] > MARGIN * before[name]
    )


def node_times(
    models: Sequence[Model], feed: Arrays, settings: Settings, *, limit: Deadline | None = None
) -> list[dict[str, float]]:
    """Seconds of each node by its name, for each model, the fastest of a few runs. They run in turn: a machine that is slow
    for a second must not be slow for one of them."""
    with temporary_folder() as scratch:
        sessions = [_profiled(model, scratch / str(index), settings) for index, model in enumerate(models)]
        for index in range(RUNS):
            if index >= RUNS_AT_LEAST and limit is not None and limit.passed:
                break
            for session in sessions:
                compute(session, None, feed)
        profiles = [json.loads(Path(session.end_profiling()).read_text()) for session in sessions]
    return [_owned(model, events) for model, events in zip(models, profiles, strict=True)]


def _profiled(model: Model, prefix: Path, settings: Settings) -> ort.InferenceSession:
    chosen = options(settings)
    chosen.enable_profiling = True
    chosen.profile_file_prefix = str(prefix)
    return load(model.to_proto().SerializeToString(), chosen)


def _owned(model: Model, events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The time of each node of the model, with that of the nodes that onnxruntime made for it."""
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["name"].removesuffix("_kernel_time")].append(event["dur"] / 1e6)
    owner, owned = owners(model), defaultdict[str, float](float)
    for name, found in times.items():
        owned[owner(name)] += min(found)
    return dict(owned)
