"""The picture: how long calls take, as distributions, and the ratios with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.bench.interleave import Timings
from sardonyx.bench.latency import PERCENTILES
from sardonyx.bench.ratio import MARGIN
from sardonyx.errors import OutputError
from sardonyx.files import replacing

FORMATS = (".png", ".svg", ".pdf")
COLOURS = {"faster": "#1a7f37", "slower": "#b42318", "no-difference": "#57606a"}
_MARKS = {"p50": "o", "p95": "|", "p99": "x"}
# Above this percentile a distribution is a few interruptions, which would squeeze the rest of the picture.
_SHOWN = 99.5


def draw(timings: Mapping[int, Timings], ratios: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes the picture in the format that the name ends with."""
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"cannot draw to {path}", hint=f"end its name in {', '.join(FORMATS)}")
    from matplotlib.figure import Figure

    tallest = max(len(one.calls) for one in timings.values())
    figure = Figure(figsize=(11, (1.5 + 0.55 * tallest) * len(timings)), layout="constrained")
    grid = figure.subplots(len(timings), 2, squeeze=False, width_ratios=(3, 2))
    for (left, right), (batch, one) in zip(grid, timings.items(), strict=True):
        _distributions(left, one, batch)
        _ratios(right, [row for row in ratios if row["batch"] == batch], list(one.calls))
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _distributions(axes: Any, timings: Timings, batch: int) -> None:
    places = range(len(timings.calls), 0, -1)
    for place, calls in zip(places, timings.calls.values(), strict=True):
        shown = np.log10(calls[calls <= np.percentile(calls, _SHOWN)] * 1e3)
        if np.ptp(shown) > 0:
            parts = axes.violinplot([shown], [place], orientation="horizontal", widths=0.8, showextrema=False)
            parts["bodies"][0].set(facecolor="#0969da", alpha=0.35)
        for name, share in PERCENTILES.items():
            axes.plot(np.log10(np.quantile(calls, share) * 1e3), place, _MARKS[name], color="black", markersize=7)
    axes.set_yticks(list(places), [_short(name) for name in timings.calls])
    axes.set_ylim(0.4, len(timings.calls) + 0.6)
    ticks = _ticks(*(10**edge for edge in axes.get_xlim()))
    axes.set_xticks(np.log10(ticks), [f"{tick:.4g}" for tick in ticks])
    axes.set_xlabel("ms a call, log scale (● p50   | p95   × p99)")
    axes.set_title(f"Latency, batch {batch}", loc="left")
    axes.grid(axis="x", alpha=0.3)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two times: 1, 2, 5, 10, ..., or evenly spaced where the span is narrow."""
    from matplotlib.ticker import MaxNLocator

    steps = [factor * 10.0**power for power in range(-5, 7) for factor in (1, 2, 5)]
    found = [step for step in steps if low <= step <= high]
    if len(found) < 3:
        found = [float(tick) for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high and tick > 0]
    return found


def _short(name: str, size: int = 32) -> str:
    return name if len(name) <= size else f"{name[: size // 3]}…{name[-(size - size // 3 - 1) :]}"


def _ratios(axes: Any, ratios: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    if not ratios:
        axes.set_axis_off()
        return
    axes.axvspan(1 / (1 + MARGIN), 1 + MARGIN, color="#d0d7de", alpha=0.6, lw=0)
    axes.axvline(1, color="#57606a", lw=1)
    for row in ratios:
        place = len(names) - names.index(row["to"])
        colour = COLOURS[row["verdict"]]
        axes.plot((row["low"], row["high"]), (place, place), color=colour, lw=3, solid_capstyle="butt")
        axes.plot(row["ratio"], place, "o", color=colour)
        axes.annotate(
            f"{row['ratio']:.2f}", (row["ratio"], place), (0, 8), textcoords="offset points", ha="center", color=colour
        )
    axes.plot(1, len(names), "o", color="#57606a")
    axes.set_yticks(range(len(names), 0, -1), ["" for _ in names])
    axes.set_ylim(0.4, len(names) + 0.6)
    axes.margins(x=0.15)
    axes.set_xlabel("times as fast (grey: no difference)")
    axes.set_title(f"Against {_short(ratios[0]['of'])}, 95 % interval", loc="left")
    axes.grid(axis="x", alpha=0.3)
