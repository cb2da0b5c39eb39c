"""inspect: what a model is made of and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.report import Report

# The seconds that the process of a file may take, called from Python.
SECONDS = 300.0


def inspect(
    model: str | Path | Model, *, sizes: Mapping[str, int] | None = None, top: int = 10, graph: bool = False
) -> Report:
    """Inputs, outputs, parameters, multiply-accumulates, activation memory, operators by cost, and the `top` tensors.

    Costs are counted for one set of sizes: dynamic dimensions take theirs from `sizes` by name, or defaults. With `graph` the
    report shows the graph itself in ONNX's text form, with large constants cut short, and has it in its field `graph`.
    """
    from sardonyx import warm

    if warm.wanted(model):
        given = {"model": model, "sizes": dict(sizes or {}), "top": top, "graph": graph}
        return warm.call("inspect", given, about=model, seconds=SECONDS)  # type: ignore[arg-type]
    from sardonyx.inspect.summary import summarize
    from sardonyx.model import Model

    return summarize(Model.load(model), sizes=dict(sizes or {}), top=top, graph=graph)
