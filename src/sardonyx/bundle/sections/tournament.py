"""How the model became ONNX: every route, whether it agreed, and the input on which it did not."""

from __future__ import annotations

import json
from typing import Any

from sardonyx.bundle.figures import duration, error
from sardonyx.bundle.markup import Markup, joined, more, section, skipped, table, tag, word
from sardonyx.bundle.story import Story

HEADING = "Export tournament"
_KINDS = {"agrees": "good", "winner": "good", "mismatch": "bad", "disagrees": "bad", "failed": "bad", "differs": "bad"}


def part(story: Story) -> Markup:
    """The table of the routes with their counterexamples."""
    if not story.ran("convert"):
        return skipped("tournament", HEADING, story.why_skipped("convert"))
    stage = story.stage("convert")
    winner = stage.get("route")
    rows = [
        (
            tag("b", row.get("route")), _verdict(row, winner), error(row.get("max_error")), error(row.get("tolerance")),
            duration(row.get("seconds")), _note(row),
        )
        for row in story.rows(stage, "candidates")
    ]  # fmt: skip
    probes = stage.get("probes")
    told = (
        more(f"{len(probes)} probes", tag("p", ", ".join(map(str, probes))))
        if isinstance(probes, list) and probes
        else ""
    )
    columns = ("route", "verdict", "difference", "tolerance", "took", "note")
    return section("tournament", HEADING, tag("p", stage.get("summary")), table(columns, rows), told)


def _verdict(row: Any, winner: Any) -> Markup:
    verdict = str(row.get("verdict"))
    if row.get("route") == winner:
        return word("winner", "good")
    return word(verdict, _KINDS.get(verdict, "plain"))


def _note(row: Any) -> Any:
    """The reason, and the input on which the route answers otherwise than the original."""
    reason, against = row.get("reason") or "", row.get("counterexample")
    if not against:
        return reason
    shown = against if isinstance(against, str) else json.dumps(against, ensure_ascii=False, default=str)
    return joined(reason, tag("div", tag("b", "Counterexample: "), shown, class_="counterexample"))
