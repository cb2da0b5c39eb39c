"""Everything that was tried in one picture: how much faster against how much was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sardonyx.files import replacing
from sardonyx.quantize.candidates import Candidate
from sardonyx.quantize.metric import Budget

_COLOURS = {"passed": "#1a7f37", "rejected": "#b35900", "screened": "#57606a"}

_KEY = "green: passed the guard\nbrown: rejected\ngrey: not needed any more\n"


def pareto(candidates: list[Candidate], winner: Candidate | None, budget: Budget, path: str | Path) -> None:
    """Writes the picture to `path`, in the format that its suffix names."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    points = [
        (item, item.best_ratio.ratio, _percent(item)) for item in candidates if item.best_ratio and item.best_score
    ]
    largest = max([budget.amount * 300, *(loss for _, _, loss in points)], default=1.0)
    right = max([2.0, *(ratio for _, ratio, _ in points)]) * 1.1
    axes.fill_between([1, right], -budget.amount * 100, budget.amount * 100, color=_COLOURS["passed"], alpha=0.07)
    axes.text(right, 0, "both sides hold ", color=_COLOURS["passed"], ha="right", va="bottom", fontsize=8)
    axes.axhline(budget.amount * 100, color="#cf222e", linestyle="--", linewidth=1)
    axes.text(0.995, budget.amount * 100, f"budget {budget}", color="#cf222e", ha="right", va="bottom",
              transform=axes.get_yaxis_transform())  # fmt: skip
    axes.axvline(1, color="black", linewidth=1)
    axes.plot([1], [0], "*", color="black", markersize=12)
    axes.annotate("float", (1, 0), textcoords="offset points", xytext=(6, -12), fontsize=8)
    for number, (item, ratio, loss) in enumerate(points, 1):
        _draw(axes, item, number, ratio, loss, item is winner)
    axes.set_yscale("symlog", linthresh=max(budget.amount * 100, 1e-3))
    axes.set_ylim(-0.3 * max(budget.amount * 100, 1e-3), largest * 1.5)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("times faster than float (right is better)")
    axes.set_ylabel("loss of the metric, % (down is better)")
    ending = "the circle is what was written" if winner else "float was kept"
    axes.set_title(f"Everything that was tried; {ending}")
    if points:
        axes.legend(
            loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7, frameon=False, title=_KEY, title_fontsize=7
        )
    with replacing(path) as temporary:
        figure.savefig(temporary, format=Path(path).suffix.lstrip(".") or "png", dpi=130)


def _draw(axes: Any, item: Candidate, number: int, ratio: float, loss: float, won: bool) -> None:
    colour = _COLOURS.get(item.verdict, "#57606a")
    spread = item.best_ratio
    assert spread is not None
    sides = [[max(ratio - spread.low, 0)], [max(spread.high - ratio, 0)]]
    axes.errorbar(
        [ratio], [loss], xerr=sides, fmt="o", color=colour, markersize=5, linewidth=1, label=f"{number}  {item.name}"
    )
    axes.annotate(str(number), (ratio, loss), textcoords="offset points", xytext=(4, 4), fontsize=7)
    if won:
        axes.plot([ratio], [loss], "o", markersize=14, markerfacecolor="none", markeredgecolor="#1a7f37")


def _percent(item: Candidate) -> float:
    assert item.best_score is not None
    return max(item.best_score.loss, 0.0) * 100 if item.best_score.loss != float("inf") else 100.0
