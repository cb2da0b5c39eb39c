"""quantize: a smaller, faster model that stays right, or the float model and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.deadline import asked_for

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.report import Report


def quantize(
    model: str | Path | Model,
    output: str | Path,
    *,
    data: Any,
    label: str | None = None,
    metric: str = "auto",
    budget: str | float = "1%",
    scheme: str = "auto",
    calibrator: str = "auto",
    time: float = 120,
    batch: int = 1,
    threads: int | None = None,
    plot: str | Path | None = None,
    seed: int = 0,
) -> Report:
    """Writes the fastest quantised form of `model` that keeps the metric within the budget and is faster than float here.

    If none is, the float model is written and the verdict is `kept-float`. Half of `data` calibrates, the other half is seen
    by the guard alone; `label` names its labels where they are not called `label`. `metric` is `accuracy`, `top5`, `f1`, `mae`,
    `rmse`, `cosine`, `agreement` (with float) or `module:callable`; `auto` takes the task's own where there are labels. `budget`
    is `1%` of the metric or `0.01` in its unit. Speed is measured on batches of `batch`. All of it takes at most `time` seconds:
    what is not tried by then is not tried, and of much data no more is used than there is time for. `plot` is a picture of all
    that was tried.
    """
    limit = asked_for(time, "quantize")  # the imports below take time too
    from sardonyx.dataset import Dataset
    from sardonyx.quantize.verb import quantize_model

    return quantize_model(
        model, output, data=Dataset.of(data, label), metric=metric, budget=budget, scheme=scheme, calibrator=calibrator,
        limit=limit, measuring=time, batch=batch, threads=threads, plot_file=plot, seed=seed,
    )  # fmt: skip
