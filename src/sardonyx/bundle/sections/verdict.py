"""The top of the page: the verdict in a sentence, and the four figures that it rests on."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from sardonyx.bundle.figures import BAD, GOOD, PLAIN, interval, ratio_words, score, times, verdict_kind
from sardonyx.bundle.markup import Markup, joined, tag
from sardonyx.bundle.story import Story
from sardonyx.report import human_bytes

_AGREES = {"equal": "bit for bit", "rounding": "up to rounding", "mismatch": "not at all times"}


def part(story: Story) -> Markup:
    """The headline, the sentence and the figures."""
    good = bool(story.report.get("ok"))
    figures = [figure for figure in (_agreement(story), _speed(story), _quality(story), _size(story)) if figure]
    return tag(
        "header",
        tag("p", "Sardonyx", tag("span", " report"), class_="brand"),
        tag("h1", name(story)),
        tag("p", sentence(story), class_=f"verdict {GOOD if good else BAD}"),
        tag("dl", *figures, class_="figures") if figures else "",
        _findings(story),
    )


def name(story: Story) -> str:
    """The source without the folders that it lies in."""
    source = story.source
    return PurePath(source).name if "/" in source else source


def sentence(story: Story) -> str:
    """What came of it all, in one sentence."""
    if not story.report.get("ok"):
        stages = story.rows(story.report, "stages")
        last = stages[-1] if stages else {}
        ended = f"{last.get('stage', 'the run')} ended with “{last.get('verdict', 'an error')}”"
        return f"Not shipped: {ended}. {last.get('summary', '')}".strip()
    quantized = story.stage("quantize").get("verdict") == "quantized"
    parts = [_kind(story)]
    agreement = _AGREES.get(str(story.stage("compare").get("verdict")))
    if agreement and not quantized:
        parts.append(f"agrees with the original {agreement}")
    if story.speed:
        parts.append(_speed_words(story))
    if isinstance(story.task.get("after"), int | float) and story.ran("quantize"):
        label = str(story.task.get("name") or "the metric")
        before, after = (score(label, story.task.get(key)) for key in ("before", "after"))
        parts.append(f"keeps {label} at {after}" + (f", where float has {before}" if after != before else ""))
    # Quantising changes answers: what agrees is the model that it began with.
    before = f"; the float model before it agrees with the original {agreement}" if agreement and quantized else ""
    return f"{parts[0]}{_listed(parts[1:])}{before}."


def _speed_words(story: Story) -> str:
    if story.speed.get("verdict") == "no-difference":
        return f"is as fast as the framework ({interval(story.speed)} times)"
    return f"is {ratio_words(story.speed, 'the framework')}"


def _kind(story: Story) -> str:
    quantized = story.stage("quantize")
    if quantized.get("verdict") == "quantized":
        return f"Shipped as a quantised model ({quantized.get('scheme')}) that "
    if story.stage("optimize").get("verdict") == "optimized":
        return "Shipped as an optimised float model that "
    return "Shipped as a float model that "


def _listed(parts: list[str]) -> str:
    if not parts:
        return "can be verified"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _figure(label: str, value: Any, below: str, kind: str = PLAIN) -> Markup:
    return tag("div", tag("dt", label), tag("dd", tag("b", value, class_=kind), tag("span", below)))


def _agreement(story: Story) -> Markup | None:
    stage = story.stage("compare")
    if not story.ran("compare"):
        return None
    worst = max(
        (row["used"] for row in story.rows(stage, "outputs") if isinstance(row.get("used"), int | float)), default=None
    )
    whose = "of the float model, " if story.stage("quantize").get("verdict") == "quantized" else ""
    below = whose.rstrip(", ") if worst is None else f"{whose}at most {worst:.0%} of the tolerance"
    return _figure("Agreement", stage.get("verdict"), below, GOOD if stage.get("ok") else BAD)


def _speed(story: Story) -> Markup | None:
    speed = story.speed
    if not speed:
        return None
    below = f"times the framework’s, {interval(speed)}"
    return _figure("Speed", f"{times(speed['ratio'])}×", below, verdict_kind(speed))


def _quality(story: Story) -> Markup | None:
    label, after = story.task.get("name"), story.task.get("after")
    if not label or not isinstance(after, int | float):
        return None
    before = score(label, story.task.get("before"))
    return _figure(str(label).capitalize(), score(label, after), f"float {before}, budget {story.task.get('budget')}")


def _size(story: Story) -> Markup | None:
    variants = story.rows(story.stage("bench"), "variants")
    sizes = {row.get("name"): row["size"] for row in variants if isinstance(row.get("size"), int)}
    size = sizes.get("model") or story.stage("optimize").get("bytes_after")
    if not isinstance(size, int):
        return None
    start = story.stage("optimize").get("bytes_before")
    return _figure("Size", human_bytes(size), f"as converted {human_bytes(start)}" if isinstance(start, int) else "")


def _findings(story: Story) -> Markup:
    rows = [
        tag("li", tag("b", row.get("message"), class_=str(row.get("severity"))), f" {row.get('hint') or ''}")
        for row in story.rows(story.report, "findings")
    ]
    return tag("ul", joined(*rows), class_="findings") if rows else Markup("")
