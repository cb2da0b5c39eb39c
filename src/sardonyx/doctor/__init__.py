"""doctor: what this machine and this installation can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.report import Report


def doctor() -> Report:
    """Versions, providers, CPU features, threads, installed extras, and what is wrong with them."""
    from sardonyx.doctor.examination import examine

    return examine()
