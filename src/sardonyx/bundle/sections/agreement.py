"""Whether the ONNX model answers as the original does, output by output."""

from __future__ import annotations

from sardonyx.bundle.figures import error, percent
from sardonyx.bundle.markup import Markup, section, skipped, table, tag, word
from sardonyx.bundle.story import Story

HEADING = "Agreement with the original"


def part(story: Story) -> Markup:
    """The table of the outputs, and the first node that diverges where there is one."""
    if not story.ran("compare"):
        return skipped("agreement", HEADING, story.why_skipped("compare"))
    stage = story.stage("compare")
    rows = [
        (
            tag("b", row.get("name")), word(str(row.get("verdict")), "bad" if row.get("verdict") == "mismatch" else "good"),
            error(row.get("error")), error(row.get("tolerance")), percent(row.get("used")), error(row.get("max_rel")),
            row.get("note") or "",
        )
        for row in story.rows(stage, "outputs")
    ]  # fmt: skip
    columns = ("output", "verdict", "difference", "tolerance", "used", "largest relative difference", "note")
    lead = (
        f"{stage.get('cases')} cases. The tolerance is what rounding alone may change, measured with {stage.get('noise')}. "
        "Difference and tolerance are those of the element that used most of it."
    )
    return section(
        "agreement",
        HEADING,
        tag("p", lead if stage.get("cases") else stage.get("summary")),
        table(columns, rows),
        _divergence(story),
    )


def _divergence(story: Story) -> Markup:
    found = story.inner(story.stage("compare"), "first_divergence")
    if not found:
        return Markup("")
    where = f"{found.get('op_type')} {found.get('node')}, tensor {found.get('tensor')}"
    source = f" ({found.get('source')})" if found.get("source") else ""
    return tag("p", tag("b", "The first node that diverges: "), where, source, class_="counterexample")
