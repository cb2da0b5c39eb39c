"""The report as one self-contained page: the verdict, the proof of it, and the graph to walk around in."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from sardonyx import registry
from sardonyx.bundle.markup import Markup, section, tag
from sardonyx.bundle.story import Story
from sardonyx.report import plain, visible
from sardonyx.view.overlays.error import from_ledger
from sardonyx.view.page import fill, graph_part, source

SECTIONS = "sardonyx.bundle.sections"
# In the order of the page. The names are files of `sections`.
ORDER = ("verdict", "variants", "tournament", "agreement", "optimisation", "guard", "ledger", "targets", "provenance")
GRAPH_AFTER = "ledger"


def render(report: Mapping[str, Any]) -> str:
    """An HTML document of what report.json holds. Whatever is missing from the report is said to be missing."""
    story = Story(plain(report))
    parts = []
    for name in ORDER:
        parts.append(registry.load(SECTIONS, name).part(story))
        if name == GRAPH_AFTER:
            parts.append(_graph_section(story))
    graph = _graph(story)
    slots = {
        "title": escape(visible(f"{story.source}: {report.get('verdict')}")),
        "style": source("page.css") + source("report.css") + (source("graph.css") if graph else ""),
        "body": "\n".join(parts),
        "graph": graph_part(graph, overlay=_first_overlay(graph), embedded=True) if graph else "",
    }
    return fill("report.html", slots)


def _graph_section(story: Story) -> Markup:
    if not story.inner(story.report, "graph"):
        return section(
            "model", "Graph", tag("p", tag("b", "Skipped. "), "The report holds no graph.", class_="skipped")
        )
    hint = (
        "Click a node for its attributes, shapes and weights. Double-click a scope to open or close it. "
        "Click into the picture first to zoom with the wheel."
    )
    script = tag("noscript", "The graph is drawn with JavaScript, which is turned off.")
    return section("model", "Graph", tag("p", hint, class_="hint"), tag("div", script, id="graph"))


def _graph(story: Story) -> dict[str, Any]:
    """The graph, with the ledger's errors laid over it unless it brings its own."""
    graph = dict(story.inner(story.report, "graph"))
    ledger = story.inner(story.report, "ledger")
    if not graph:
        return {}
    overlays = list(graph.get("overlays") or ())
    if ledger.get("nodes") and not any(overlay["name"] == "error" for overlay in overlays):
        overlay = from_ledger(ledger, graph["nodes"], graph["values"])
        if overlay.values:
            overlays.append(overlay.to_dict())
    return {**graph, "overlays": overlays}


def _first_overlay(graph: Mapping[str, Any]) -> str:
    names = [overlay["name"] for overlay in graph.get("overlays") or ()]
    return next((name for name in ("time", "error") if name in names), "")
