"""check: what is wrong with a model, and where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.report import Report


def check(
    path: str | Path,
    *,
    targets: Sequence[str] = (),
    ort: str | None = None,
    fix: str | Path | None = None,
    timeout: float | None = None,
) -> Report:
    """Findings about the model at `path`, and the runtimes that load it; with `fix`, a mended copy proven by loading.

    `targets` may name cpu, web and mobile. `ort` asks about another onnxruntime release. `timeout` bounds the trial load
    in seconds; by default it grows with the model.
    """
    from sardonyx.check._report import examine

    return examine(Path(path), targets=tuple(targets), ort=ort, fix=None if fix is None else Path(fix), timeout=timeout)
