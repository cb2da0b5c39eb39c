"""What the quantisation guard decided: which candidate pays, and why nodes went back to float."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sardonyx.bundle.figures import percent, ratio_cell, score, span
from sardonyx.bundle.markup import Markup, more, section, skipped, table, tag, word
from sardonyx.bundle.story import Story
from sardonyx.report import human_bytes

HEADING = "Quantisation guard"
# Names of nodes that are listed for one reason.
MOST = 200


def part(story: Story) -> Markup:
    """The decision, the candidates, and the nodes that stay float with their reasons."""
    if not story.ran("quantize"):
        return skipped("guard", HEADING, story.why_skipped("quantize"))
    return section("guard", HEADING, _lead(story), _candidates(story), _reverted(story))


def _lead(story: Story) -> Markup:
    stage, task = story.stage("quantize"), story.task
    decided = "Quantised" if stage.get("verdict") == "quantized" else "Kept float"
    words = (
        f"A candidate stays only where {task.get('name') or 'the metric'} loses at most {task.get('budget')} and the clock "
        f"shows a gain on this machine. {stage.get('summary') or ''}"
    )
    return tag("p", tag("b", f"{decided}. "), words)


def _candidates(story: Story) -> Markup:
    stage, label = story.stage("quantize"), str(story.task.get("name") or "metric")
    candidates = story.rows(stage, "candidates")
    scale = span([story.inner(row, "speedup") for row in candidates])
    rows = [
        (
            tag("b", row.get("name")), _verdict(row, stage.get("candidate")),
            score(label, row.get("before")), score(label, row.get("metric")), percent(row.get("loss")), row.get("data") or "",
            human_bytes(row["size"]) if isinstance(row.get("size"), int) else "", row.get("calibrator"), row.get("reason") or "",
            ratio_cell(story.inner(row, "speedup"), **scale),
        )
        for row in candidates
    ]  # fmt: skip
    return table(
        (
            "candidate",
            "verdict",
            f"{label} of float",
            label,
            "loss",
            "on data of",
            "size",
            "calibrator",
            "reason",
            "times as fast as float",
        ),
        rows,
    )


def _reverted(story: Story) -> Markup:
    """Nodes that stay float, by reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for row in story.rows(story.stage("quantize"), "reverted"):
        by_reason[str(row.get("reason"))].append(str(row.get("node")))
    if not by_reason:
        return Markup("")
    count = sum(map(len, by_reason.values()))
    rows = [
        (reason, len(nodes), tag("div", *(tag("code", node) for node in nodes[:MOST]), class_="names"))
        for reason, nodes in by_reason.items()
    ]
    title = f"{count} node{'s stay' if count > 1 else ' stays'} float"
    return more(title, table(("reason", "count", "nodes"), rows))


def _verdict(row: Mapping[str, Any], chosen: Any) -> Markup:
    """`screened` candidates were measured on a part of the data and gave way to a better one."""
    verdict = str(row.get("verdict"))
    if chosen is not None and row.get("name") == chosen:
        return word("chosen", "good")
    return word(verdict, "bad" if verdict == "rejected" else "plain")
