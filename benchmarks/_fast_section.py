"""The section of RESULTS.md that fast.py prints: a table for each model, one for all of them, and the memory of calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from _subjects import ROOT

from sardonyx.quantize.metric import Budget

BUDGET = Budget.parse("1%")
FLOAT, OURS, OPTIMIZED = "as converted", "**ours**", "ours, optimize alone"
NO = "**no**"
Row = dict[str, Any]


def section(results: Sequence[dict[str, Any]], calibration: dict[str, Any] | None) -> str:
    """All of it, of what each model's run has found."""
    parts = [_head(), *(_model_table(result) for result in results), _summary(results)]
    return "\n\n".join([*parts, _memory(calibration)] if calibration else parts)


def _memory(found: dict[str, Any]) -> str:
    above = ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in found["above"].items())
    return (
        f"Calibration of MobileNetV2 on {found['images']:,} images of 224x224 takes at its peak, beyond what the model takes"
        f" to run: {above}, one calibrator after the other. The goal is at most 1.5 GB."
    )


def _head() -> str:
    return (
        "## Fast and right\n\n"
        "Every model is one run in which all variants take turns on one CPU, one example at a time. Loss is what the metric\n"
        "loses against the model as converted, relative, on held-out data: neither calibration nor any guard has seen it.\n"
        "For the ImageNet models those are other crops of the same twenty photographs, which is weaker than new ones.\n"
        "The times are those of the model as converted in onnxruntime, divided by the variant's. The budget is a loss of 1 %;\n"
        "`perhaps` says that the loss is above it, and its interval is not."
    )


def _model_table(result: dict[str, Any]) -> str:
    lines = [
        f"### {result['name']}\n",
        f"{result['metric']} of {result['before']:.4g} on {result['examples']} held-out examples;"
        f" ours is the graph of {result['graph']}, {result['scheme'] or 'in float'}.\n",
        "| variant | loss | times as fast | keeps the budget |",
        "|---|---|---|---|",
    ]
    for name, row in result["rows"].items():
        if "ratio" not in row:
            lines.append(f"| {name} | | | {row.get('reason', 'not measured').replace(f'{ROOT}/', '')} |")
            continue
        loss = _loss(row["loss"]) if "loss" in row else "the original"
        lines.append(f"| {name} | {loss} | {_ratio(row['ratio'])} | {_keeps(row)} |")
    return "\n".join(lines)


def _summary(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        "### In sum\n",
        "| model | ours, times as fast | loss | not slower | in budget | fastest peer in budget | ours to that peer |"
        " at least as fast |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        rows = result["rows"]
        ours = rows[OURS]
        peers = {
            name: row for name, row in rows.items()
            if name not in (FLOAT, OURS, OPTIMIZED) and "ratio" in row and _keeps(row) != NO
        }  # fmt: skip
        best = max(peers, key=lambda name: peers[name]["ratio"]["ratio"], default=None)
        to_best = peers[best]["ours"] if best else {"ratio": 1, "low": 1, "high": 1, "verdict": "faster"}
        slower = [name for name in (OURS, OPTIMIZED) if rows[name]["ratio"]["verdict"] == "slower"]
        lines.append(
            f"| {result['name']} | {_ratio(ours['ratio'])} | {_loss(ours['loss'])} | {_yes(not slower)} | {_keeps(ours)} |"
            f" {best} | {_ratio(to_best)} | {_yes(to_best['verdict'] != 'slower')} |"
        )
    with_weights = [result for result in results if result["quantisable"]]
    quantised = [result for result in with_weights if result["scheme"]]
    text = (
        f"\nThe geometric mean over the {len(quantised)} models that integers make faster within the budget is"
        f" {_mean(quantised):.2f}; the goal is 1.5. Over all {len(with_weights)} with weights to quantise, those that stay in"
        f" float included, it is {_mean(with_weights):.2f}."
    )
    return "\n".join(lines) + "\n" + text


def _mean(results: Sequence[dict[str, Any]]) -> float:
    """The geometric mean of how many times as fast ours is."""
    logs = [math.log(result["rows"][OURS]["ratio"]["ratio"]) for result in results]
    return math.exp(sum(logs) / max(len(logs), 1))


def _ratio(ratio: dict[str, Any]) -> str:
    return f"{ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def _loss(loss: Sequence[float]) -> str:
    return f"{100 * loss[0]:.2f} % ({100 * loss[1]:.2f} to {100 * loss[2]:.2f})"


def _yes(what: bool) -> str:
    return "yes" if what else NO


def _keeps(row: Row) -> str:
    """Whether the loss is within the budget, or could be by its interval."""
    if "loss" not in row or row["loss"][0] <= BUDGET.amount:
        return "yes"
    return "perhaps" if row["loss"][1] <= BUDGET.amount else NO
