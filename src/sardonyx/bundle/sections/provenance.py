"""Where everything came from: the stages with their options and versions, and the hashes of what went in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.bundle.figures import duration
from sardonyx.bundle.markup import Markup, joined, more, section, table, tag
from sardonyx.bundle.story import Story

HEADING = "Provenance"


def part(story: Story) -> Markup:
    """The stages, the versions of the libraries, and the hashes."""
    rows = [
        (tag("b", row.get("stage")), row.get("verdict"), duration(row.get("seconds")), _first_line(row.get("summary")))
        for row in story.rows(story.report, "stages")
    ]
    stages = table(("stage", "verdict", "took", "what it found"), rows)
    return section("provenance", HEADING, stages, _versions(story), _details(story))


def _first_line(text: Any) -> str:
    return (str(text or "").splitlines() or [""])[0]


def _versions(story: Story) -> Markup:
    versions: dict[str, Any] = {}
    for row in story.rows(story.report, "provenance"):
        versions |= story.inner(row, "versions")
    if not versions:
        return Markup("")
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return tag("p", f"Made with {told}.")


def _details(story: Story) -> Markup:
    rows = [
        (
            tag("b", row.get("stage")),
            _pairs(story.inner(row, "options")),
            _hashes(story.inner(row, "inputs")),
            _hashes(story.inner(row, "outputs")),
        )
        for row in story.rows(story.report, "provenance")
    ]
    if not rows:
        return Markup("")
    return more("Options and hashes", table(("stage", "options", "read", "wrote"), rows))


def _pairs(options: Mapping[str, Any]) -> Markup:
    return joined(*(tag("div", f"{name} = {value}", class_="option") for name, value in options.items()))


def _hashes(files: Mapping[str, Any]) -> Markup:
    return joined(
        *(tag("div", f"{name} ", tag("code", str(value or "")[:12]), class_="option") for name, value in files.items())
    )
