"""Numbers of the report as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.bundle.charts import whisker
from sardonyx.bundle.markup import Markup, joined, tag, word
from sardonyx.bundle.story import is_ratio

GOOD, BAD, PLAIN = "good", "bad", "plain"
_KINDS = {"faster": GOOD, "slower": BAD, "no-difference": PLAIN}


def duration(seconds: Any) -> str:
    """0.00123 -> '1.23 ms'."""
    if not isinstance(seconds, int | float):
        return ""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= size:
            return f"{_short(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def error(value: Any) -> str:
    """An error as a power of ten."""
    if not isinstance(value, int | float):
        return "" if value is None else str(value)
    return "0" if value == 0 else f"{value:.2g}"


def percent(value: Any) -> str:
    """0.9722 -> '97.22 %'."""
    return f"{100 * value:.2f} %" if isinstance(value, int | float) else ""


def score(name: str | None, value: Any) -> str:
    """The task's metric: shares as percentages, anything else as a number."""
    if not isinstance(value, int | float):
        return ""
    share = 0 <= value <= 1 and (name or "") not in ("mse", "mae", "rmse")
    return percent(value) if share else f"{value:.4g}"


def ratio_words(ratio: Mapping[str, Any] | None, than: str) -> str:
    """'1.83 times as fast as the framework (1.70 to 1.95)'."""
    if not is_ratio(ratio):
        return ""
    assert ratio is not None
    return f"{times(ratio['ratio'])} times as fast as {than} ({interval(ratio)})"


def interval(ratio: Mapping[str, Any]) -> str:
    """'1.70 to 1.95'."""
    return f"{times(ratio['low'])} to {times(ratio['high'])}"


def times(value: float) -> str:
    """A ratio with three digits, and never fewer than all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_cell(ratio: Mapping[str, Any] | None, *, least: float, most: float) -> Markup:
    """A ratio with its interval drawn and written."""
    if not is_ratio(ratio):
        return Markup("")
    assert ratio is not None
    low, middle, high = ratio["low"], ratio["ratio"], ratio["high"]
    kind = verdict_kind(ratio)
    return joined(
        Markup(whisker(middle, low, high, least=least, most=most, kind=kind)),
        tag("span", f"{times(middle)} ", tag("small", interval(ratio)), class_="ratio"),
    )


def span(ratios: list[Mapping[str, Any] | None]) -> dict[str, float]:
    """The ends of the scale on which ratios are drawn below one another."""
    known = [value for ratio in ratios if is_ratio(ratio) and ratio for value in (ratio["low"], ratio["high"])]
    least, most = min([0.8, *known]), max([1.25, *known])
    return {"least": least / 1.05, "most": most * 1.05}


def verdict_kind(ratio: Mapping[str, Any]) -> str:
    told = ratio.get("verdict")
    if told in _KINDS:
        return _KINDS[told]
    return GOOD if ratio["low"] > 1 else BAD if ratio["high"] < 1 else PLAIN


def yes(ok: Any, good: str = "yes", bad: str = "no") -> Markup:
    return word(good, GOOD) if ok else word(bad, BAD)


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
