"""What each optimiser made of the graph, and which was taken."""

from __future__ import annotations

from sardonyx.bundle.figures import error, ratio_cell, span
from sardonyx.bundle.markup import Markup, section, skipped, table, tag, word
from sardonyx.bundle.story import Story
from sardonyx.report import human_bytes

HEADING = "Optimisation"


def part(story: Story) -> Markup:
    """The table of the candidates."""
    if not story.ran("optimize"):
        return skipped("optimisation", HEADING, story.why_skipped("optimize"))
    stage = story.stage("optimize")
    candidates = story.rows(stage, "candidates")
    scale = span([story.inner(row, "speedup") for row in candidates])
    rows = [
        (
            tag("b", row.get("name")), _verdict(str(row.get("verdict"))), row.get("nodes"),
            human_bytes(row["bytes"]) if isinstance(row.get("bytes"), int) else "", error(row.get("max_error")),
            error(row.get("tolerance")), row.get("reason") or "",
            ratio_cell(story.inner(row, "speedup"), **scale),
        )
        for row in candidates
    ]  # fmt: skip
    columns = ("candidate", "verdict", "nodes", "size", "difference", "tolerance", "note", "times as fast")
    return section("optimisation", HEADING, tag("p", stage.get("summary")), table(columns, rows))


def _verdict(verdict: str) -> Markup:
    return word(
        verdict, "good" if verdict == "winner" else "bad" if verdict in ("refused", "wrong", "failed") else "plain"
    )
