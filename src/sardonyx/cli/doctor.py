from __future__ import annotations

import sardonyx
from sardonyx.report import Report


def doctor() -> Report:
    """Show what this machine and installation can do, and what is wrong with them."""
    return sardonyx.doctor()
