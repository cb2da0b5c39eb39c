"""Which measured claims of a bundle hold on another machine, and which have to be measured again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.bundle.story import is_ratio

# Of the libraries only the runtime decides how fast a model is.
RUNTIME = "onnxruntime"


def claims(record: Mapping[str, Any], versions: Mapping[str, str], machine: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every measured claim, whether it carries over to here, and if not, why."""
    why = _differences(record, versions, machine)
    return [
        {"claim": name, "says": says, "carries_over": not why, "why": why} for name, says in _made(record["metrics"])
    ]


def _made(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    speed: Any = metrics.get("speed")
    if is_ratio(speed):
        found.append(("speed", f"the model is {_interval(speed)} times as fast as the framework"))
    for name, word in (("optimize", "optimising"), ("quantize", "quantising")):
        stage = metrics.get(name)
        gain: Any = stage.get("speedup") if isinstance(stage, Mapping) else None
        if is_ratio(gain) and gain["low"] > 1:
            found.append((name, f"{word} made it {_interval(gain)} times as fast"))
    return found


def _differences(record: Mapping[str, Any], versions: Mapping[str, str], machine: Mapping[str, Any]) -> str:
    then, reasons = record["machine"], []
    if then.get("cpu") != machine["cpu"]:
        reasons.append(f"measured on {then.get('cpu')}, and this is {machine['cpu']}")
    lost = [name for name, had in dict(then.get("features") or {}).items() if had and not machine["features"].get(name)]
    gained = [name for name, has in machine["features"].items() if has and not (then.get("features") or {}).get(name)]
    if lost:
        reasons.append(f"this CPU lacks {', '.join(lost)}")
    if gained:
        reasons.append(f"this CPU also has {', '.join(gained)}")
    if then.get("threads") != machine["threads"]:
        reasons.append(f"measured on {then.get('threads')} threads, and here are {machine['threads']}")
    was, now = record["versions"].get(RUNTIME), versions.get(RUNTIME)
    if was != now:
        reasons.append(f"measured with {RUNTIME} {was}, and {now} is installed")
    return "; ".join(reasons)


def _interval(ratio: Mapping[str, Any]) -> str:
    return f"{ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
