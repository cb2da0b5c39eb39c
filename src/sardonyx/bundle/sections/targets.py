"""Where the model runs, and on which machine it was measured."""

from __future__ import annotations

from sardonyx.bundle.figures import yes
from sardonyx.bundle.markup import Markup, joined, section, table, tag
from sardonyx.bundle.story import Story

HEADING = "Where it runs"


def part(story: Story) -> Markup:
    """The targets, the findings of check, and the machine."""
    targets = story.rows(story.report, "runs_on") or story.rows(story.stage("check"), "runs_on")
    rows = [
        (tag("b", row.get("target")), yes(row.get("ok"), "runs", "does not run"), row.get("reason")) for row in targets
    ]
    body = (
        table(("target", "", "how it is known"), rows)
        if rows
        else tag("p", "check was skipped: ", story.why_skipped("check"), class_="skipped")
    )
    found = [
        (tag("b", row.get("severity")), row.get("code"), row.get("where"), row.get("message"), row.get("hint"))
        for row in story.rows(story.stage("check"), "findings")
    ]
    return section(
        "targets",
        HEADING,
        body,
        table(("severity", "code", "where", "message", "hint"), found, caption="What check found"),
        _machine(story),
    )


def _machine(story: Story) -> Markup:
    machine = story.inner(story.report, "machine")
    if not machine:
        return Markup("")
    features = story.inner(machine, "features")
    have = [name for name, present in features.items() if present]
    lack = [name for name, present in features.items() if not present]
    words = f"Measured on {machine.get('cpu')} with {machine.get('threads')} threads"
    told = joined(
        words,
        f"; it has {', '.join(have)}" if have else "",
        f", and lacks {', '.join(lack)}" if lack else "",
        ". Speeds do not carry over to another machine.",
    )
    return tag("p", told)
