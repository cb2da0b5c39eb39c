"""view: a model's graph as a page to walk around in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.report import Report


def view(
    model: str | Path | Model,
    output: str | Path | None = None,
    *,
    overlays: Sequence[str] = (),
    against: str | Path | Model | None = None,
    data: Any = None,
    sizes: Mapping[str, int] | None = None,
    provider: str = "cpu",
    threads: int | None = None,
    netron: bool = False,
) -> Report:
    """Writes one HTML file that shows the graph of `model`, an ONNX model or a bundle, and needs no network.

    `overlays` colour the nodes: time, error, precision, provider, diff. error and diff look at the model next to
    `against`; in a bundle, error comes from its ledger. With `netron`, Netron shows the model instead and nothing is written.
    """
    from sardonyx.view.writing import open_netron, write_page

    if netron:
        return open_netron(model)
    return write_page(
        model, output, overlays, against=against, data=data, sizes=dict(sizes or {}), provider=provider, threads=threads
    )
