"""The error ledger: how far every node is from the reference after each stage, and where a stage added most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.bundle.charts import by_node
from sardonyx.bundle.figures import error
from sardonyx.bundle.markup import Markup, joined, section, skipped, table, tag
from sardonyx.bundle.story import Story

HEADING = "Error ledger"
TOP = 12


def part(story: Story) -> Markup:
    """The chart, the nodes that gained most error, and the outputs."""
    ledger = story.inner(story.report, "ledger")
    nodes = story.rows(ledger, "nodes")
    stages = [str(stage) for stage in ledger.get("stages") or ()]
    if not nodes or not stages:
        return skipped("ledger", HEADING, str(ledger.get("reason") or "There is no ledger in this report."))
    reference = (
        "the float model computed in float64" if ledger.get("reference") == "float64" else "the model as converted"
    )
    lead = (
        f"Each line follows the relative error of every node’s result through the graph, against {reference}: "
        "one line for each stage that the model went through."
    )
    series = {stage: [_of(story, row, "error", stage) for row in nodes] for stage in stages}
    chart = by_node(series, up="relative error")
    figure = tag("figure", Markup(chart), _legend(stages)) if chart else tag("p", "No node is off by anything.")
    return section(
        "ledger", HEADING, tag("p", lead), figure, _most(story, nodes, stages), _outputs(story, ledger, stages)
    )


def _legend(stages: list[str]) -> Markup:
    keys = [tag("span", tag("i", class_=f"s{place}"), stage, class_="key") for place, stage in enumerate(stages)]
    return tag("figcaption", joined(*keys))


def _most(story: Story, nodes: Any, stages: list[str]) -> Markup:
    """The nodes where a stage after the first added most; of a single stage, where the error is largest."""
    later = stages[1:] or stages
    ranked = sorted(nodes, key=lambda row: -max(_of(story, row, "added", stage) or 0.0 for stage in later))
    rows = [
        (
            tag("b", row.get("node")),
            row.get("op_type"),
            *(error(_of(story, row, "error", stage)) for stage in stages),
            *(error(_of(story, row, "added", stage)) for stage in stages[1:]),
        )
        for row in ranked[:TOP]
    ]
    errors, additions = [f"error {stage}" for stage in stages], [f"added by {stage}" for stage in stages[1:]]
    return table(("node", "operator", *errors, *additions), rows, caption="Where the error grew most")


def _outputs(story: Story, ledger: Mapping[str, Any], stages: list[str]) -> Markup:
    outputs = story.rows(ledger, "outputs")
    known = [stage for row in outputs for stage in story.inner(row, "error")]
    columns = list(dict.fromkeys([*known, *stages]))
    rows = [
        (tag("b", row.get("name")), *(error(_of(story, row, "error", stage)) for stage in columns)) for row in outputs
    ]
    return table(("output", *columns), rows, caption="At the outputs")


def _of(story: Story, row: Mapping[str, Any], what: str, stage: str) -> float | None:
    """A number of a row, or nothing where the stage no longer has the tensor."""
    value = story.inner(row, what).get(stage)
    return float(value) if isinstance(value, int | float) else None
