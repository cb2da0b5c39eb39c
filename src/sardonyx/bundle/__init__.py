"""ship: from a trained model to a bundle with its proofs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.report import Report


def ship(source: Any, output: str | Path, *, data: str | Path | None = None, **convert_options: Any) -> Report:
    """Converts, checks, compares and runs `source`, and writes the model with golden cases and their record to a folder.

    `convert_options` are those of `convert`.
    """
    from sardonyx.bundle.shipping import ship_source

    return ship_source(source, Path(output), data=data, convert_options=convert_options)
