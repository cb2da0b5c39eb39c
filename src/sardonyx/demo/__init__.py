"""demo: the whole tour on a model that is trained on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.report import Report


def demo(output: str | Path = "sardonyx-demo", *, epochs: int = 6, seed: int = 0) -> Report:
    """Trains a small CNN on scikit-learn's digits, ships it to the folder `output`, and shows what each stage found."""
    from sardonyx import registry
    from sardonyx.errors import MissingExtra

    registry.need("torch", for_what="the demo")
    if not registry.importable("sklearn"):
        raise MissingExtra("the demo's data", "sklearn")
    from sardonyx.demo.tour import tour

    return tour(Path(output), epochs=epochs, seed=seed)
