"""Speed and quality of every variant, with intervals, and the plane of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.bundle.charts import Point, pareto
from sardonyx.bundle.figures import duration, ratio_cell, ratio_words, score, span, times
from sardonyx.bundle.markup import Markup, section, skipped, table, tag
from sardonyx.bundle.story import Story, is_ratio
from sardonyx.report import human_bytes

HEADING = "Speed and accuracy"


def part(story: Story) -> Markup:
    """The bench's table, and the Pareto plot of what quantisation tried."""
    plot = _plot(story)
    if not story.ran("bench"):
        reason = story.why_skipped("bench")
        return (
            section("speed", HEADING, tag("p", tag("b", "bench skipped. "), reason, class_="skipped"), plot)
            if plot
            else skipped("speed", HEADING, reason)
        )
    bench = story.stage("bench")
    return section("speed", HEADING, _lead(story, bench), _table(story, bench), plot)


def _lead(story: Story, bench: Mapping[str, Any]) -> Markup:
    words = ratio_words(story.speed, "the framework’s own inference")
    told = f"The shipped model is {words}" if words else "Variants took turns"
    threads = bench.get("threads")
    plural = "thread" if threads == 1 else "threads"
    how = (
        f"Variants ran in turns on this machine with {threads} {plural}. Ratios are of undisturbed calls of the same rounds, "
        "with intervals of 95 %; that of the p50, which hold every call, stands beside them."
    )
    return tag("p", f"{told}. {how}")


def _table(story: Story, bench: Mapping[str, Any]) -> Markup:
    ratios = {(row.get("to"), row.get("batch")): row for row in story.rows(bench, "ratios")}
    variants = story.rows(bench, "variants")
    first = variants[0].get("name") if variants else ""
    scale = span(list(ratios.values()))
    several = len({row.get("batch") for row in variants}) > 1
    rows = [
        (
            tag("b", row.get("name")),
            row.get("batch") if several else "",
            *(duration(row.get(key)) for key in ("p50", "p95", "p99")),
            _throughput(row.get("throughput")),
            _bytes(row.get("memory")),
            _bytes(row.get("size")),
            _quality(story, row.get("name")),
            ratio_cell(ratios.get((row.get("name"), row.get("batch"))), **scale),
            _by_p50(ratios.get((row.get("name"), row.get("batch")))),
        )
        for row in variants
    ]
    label = str(story.task.get("name") or "metric")
    columns = (
        "variant",
        "batch",
        "p50",
        "p95",
        "p99",
        "per second",
        "memory",
        "size",
        label,
        f"times as fast as {first}",
        "by p50 alone",
    )
    return table(columns, rows)


def _by_p50(row: Mapping[str, Any] | None) -> str:
    value = row.get("p50_ratio") if row else None
    return times(value) if isinstance(value, int | float) else ""


def _quality(story: Story, name: Any) -> str:
    """The metric where it was measured: of the float model and of the shipped one."""
    key = {"float": "before", "optimized": "before", "model": "after"}.get(str(name))
    return score(story.task.get("name"), story.task.get(key)) if key else ""


def _plot(story: Story) -> Markup:
    points = _points(story)
    if len(points) < 2:
        return Markup("")
    label = str(story.task.get("name") or "metric")
    drawn = pareto(points, across="times as fast as float", up=f"{label} against float", as_share=_is_share(story))
    note = (
        "Each point is a candidate of the quantisation search, held against float on the same data; bars are 95 % intervals "
        "of the speed. The line joins what nothing beats in both."
    )
    return tag("figure", Markup(drawn), tag("figcaption", note))


def _is_share(story: Story) -> bool:
    metrics = [row.get("metric") for row in story.rows(story.stage("quantize"), "candidates")]
    return all(0 <= metric <= 1 for metric in metrics if isinstance(metric, int | float))


def _points(story: Story) -> list[Point]:
    """Float and the candidates. Metrics are of the search's data or of the held-out; losses against float compare."""
    stage = story.stage("quantize")
    found = []
    for row in story.rows(stage, "candidates"):
        speed = story.inner(row, "speedup")
        if is_ratio(speed) and isinstance(row.get("loss"), int | float):
            kind = "chosen" if row.get("name") == stage.get("candidate") else ""
            found.append(Point(str(row.get("name")), speed["ratio"], -row["loss"], speed["low"], speed["high"], kind))
    return [Point("float", 1.0, 0.0, 1.0, 1.0, "float"), *found] if found else []


def _throughput(value: Any) -> str:
    return (
        f"{value:,.0f}"
        if isinstance(value, int | float) and value >= 10
        else f"{value:.2g}"
        if isinstance(value, int | float)
        else ""
    )


def _bytes(value: Any) -> str:
    return human_bytes(value) if isinstance(value, int | float) else ""
