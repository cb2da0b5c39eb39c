"""Small pictures for the report, as SVG: they take their colours from the page and need no library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 30, 44


@dataclass(frozen=True)
class Point:
    """A variant in the plane of gain and quality; `kind` is a class of the page's style."""

    name: str
    x: float
    y: float
    low: float
    high: float
    kind: str = ""


@dataclass(frozen=True)
class Scale:
    """From values to places on the paper."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, here = (math.log10(item) if self.logarithmic else item for item in (self.low, self.high, value))
        return round(self.start + (here - low) / ((high - low) or 1) * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, -(-(last - first) // 6))
            return [10.0**power for power in range(first, last + 1, step)]
        return _round_ticks(self.low, self.high)


def pareto(points: Sequence[Point], *, across: str, up: str, as_share: bool = False) -> str:
    """The variants by speed and quality, with the interval of the speed, and a line through those that nothing beats."""
    spread_x = [value for point in points for value in (point.low, point.high, point.x)]
    x = _scale(spread_x, LEFT, WIDTH - RIGHT, room=0.12)
    y = _scale([point.y for point in points], HEIGHT - BOTTOM, TOP, room=0.2)
    best = sorted(frontier(points), key=lambda point: point.x)
    line = " ".join(f"{x(point.x)},{y(point.y)}" for point in best)
    marks = "".join(_mark(point, x, y) for point in points)
    told = "; ".join(f"{point.name}: {point.x:.3g}, {point.y:.4g}" for point in points)
    return _figure(
        f"{_axes(x, y, across, up, as_share)}<polyline class='front' points='{line}'/>{marks}{_labels(points, best, x, y)}",
        f"{up} against {across}. {told}",
    )


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other point beats in both directions."""
    return [
        point
        for point in points
        if not any(
            other.x >= point.x and other.y >= point.y and (other.x > point.x or other.y > point.y) for other in points
        )
    ]


def whisker(ratio: float, low: float, high: float, *, least: float, most: float, kind: str) -> str:
    """One ratio with its interval on a line that starts at `least`; the mark at 1 is where nothing changes."""
    scale = Scale(least, most, 4, 156, logarithmic=True)
    return (
        f'<svg class="whisker {escape(kind)}" viewBox="0 0 160 18" role="img" aria-label="{ratio:.2f}, {low:.2f} to {high:.2f}">'
        f'<line class="one" x1="{scale(1)}" x2="{scale(1)}" y1="1" y2="17"/>'
        f'<line class="span" x1="{scale(low)}" x2="{scale(high)}" y1="9" y2="9"/>'
        f'<circle cx="{scale(ratio)}" cy="9" r="4"/></svg>'
    )


def by_node(series: Mapping[str, Sequence[float | None]], *, up: str) -> str:
    """Lines over the nodes in their order, one for each stage, on a logarithmic scale. None is a gap, 0 lies on the floor."""
    values = [value for line in series.values() for value in line if value]
    if not values:
        return ""
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)) + 1e-9)
    count = max(len(line) for line in series.values())
    x = Scale(0, max(count - 1, 1), LEFT, WIDTH - RIGHT)
    y = Scale(low, high if high > low else low * 10, HEIGHT - BOTTOM, TOP, logarithmic=True)
    lines = "".join(_line(place, line, x, y) for place, line in enumerate(series.values()))
    grid = "".join(_rule(y(tick), f"{tick:.0e}".replace("e-0", "e-").replace("e+0", "e")) for tick in y.ticks())
    return _figure(
        f"{grid}{_axis_names('nodes, in the order of the graph', up)}{lines}",
        f"{up} of {count} nodes, for {', '.join(series)}",
    )


def _line(place: int, line: Sequence[float | None], x: Scale, y: Scale) -> str:
    runs: list[list[str]] = [[]]
    for index, value in enumerate(line):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{x(index)},{y(max(value, y.low))}")
    drawn = "".join(f"<polyline points='{' '.join(run)}'/>" for run in runs if len(run) > 1)
    alone = "".join(
        f"<circle r='2.5' cx='{run[0].split(',')[0]}' cy='{run[0].split(',')[1]}'/>" for run in runs if len(run) == 1
    )
    return f"<g class='stage s{place}'>{drawn}{alone}</g>"


def _scale(values: Iterable[float], start: float, end: float, *, room: float) -> Scale:
    low, high = min(values := list(values)), max(values)
    gap = (high - low) or abs(high) * 0.1 or 1.0
    return Scale(low - room * gap, high + room * gap, start, end)


def _axes(x: Scale, y: Scale, across: str, up: str, as_share: bool) -> str:
    ups = "".join(_rule(y(tick), f"{100 * tick:.4g} %" if as_share else f"{tick:.4g}") for tick in y.ticks())
    base = HEIGHT - BOTTOM
    acrosses = "".join(
        f"<line class='grid' x1='{x(tick)}' x2='{x(tick)}' y1='{TOP}' y2='{base}'/>"
        f"<text class='tick' x='{x(tick)}' y='{base + 16}' text-anchor='middle'>{tick:.3g}</text>"
        for tick in x.ticks()
    )
    return f"{ups}{acrosses}{_axis_names(across, up)}"


def _axis_names(across: str, up: str) -> str:
    return (
        f"<text class='axis' x='{WIDTH - RIGHT}' y='{HEIGHT - 8}' text-anchor='end'>{escape(across)} →</text>"
        f"<text class='axis' x='4' y='{TOP - 12}'>{escape(up)}</text>"
    )


def _rule(place: float, words: str) -> str:
    return (
        f"<line class='grid' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{place}' y2='{place}'/>"
        f"<text class='tick' x='{LEFT - 8}' y='{place + 4}' text-anchor='end'>{escape(words)}</text>"
    )


def _mark(point: Point, x: Scale, y: Scale) -> str:
    up = y(point.y)
    return (
        f"<g class='point {escape(point.kind)}'><title>{escape(point.name)}</title>"
        f"<line x1='{x(point.low)}' x2='{x(point.high)}' y1='{up}' y2='{up}'/><circle cx='{x(point.x)}' cy='{up}' r='5'/></g>"
    )


def _labels(points: Sequence[Point], best: Sequence[Point], x: Scale, y: Scale) -> str:
    """Names beside the marks where there is room, the most telling ones first; the others show when pointed at."""
    taken = [(x(point.x) - 6, y(point.y) - 6, x(point.x) + 6, y(point.y) + 6) for point in points]
    texts = []
    for point in sorted(points, key=lambda point: (not point.kind, point not in best)):
        size, here, up = 6.9 * len(point.name), x(point.x), y(point.y)
        sides = (8.0, -8.0 - size) if here < WIDTH * 0.6 else (-8.0 - size, 8.0)
        boxes = [
            (here + side, up + top, here + side + size, up + top + 13) for top in (-19, 7, -33, 21) for side in sides
        ]
        fitting = (box for box in boxes if box[0] > LEFT and box[2] < WIDTH)
        free = next((box for box in fitting if not any(_meet(box, other) for other in taken)), None)
        if free is not None:
            taken.append(free)
            texts.append(_label(point, free, before=free[0] < here))
    return "".join(texts)


def _label(point: Point, box: tuple[float, ...], *, before: bool) -> str:
    edge, anchor = (box[2], "end") if before else (box[0], "start")
    kind = "name" if point.kind else "name minor"
    return (
        f"<text class='{kind}' x='{edge:.1f}' y='{box[1] + 11:.1f}' text-anchor='{anchor}'>{escape(point.name)}</text>"
    )


def _meet(one: tuple[float, ...], two: tuple[float, ...]) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def _figure(inside: str, told: str) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(told)}">{inside}</svg>'


def _round_ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers between two."""
    gap = (high - low) or 1.0
    step = 10 ** math.floor(math.log10(gap / 4))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if gap / (step * factor) <= 7)
    first = math.ceil(low / step)
    return [round(index * step, 10) for index in range(first, math.floor(high / step) + 1)]
