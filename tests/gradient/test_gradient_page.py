"""The page that builds the engine from nothing runs, step by step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent.parent / "docs" / "concepts" / "gradient-from-nothing.md"


def test_every_step_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        names: dict[str, Any] = {}
        exec(compile(block, str(PAGE), "exec"), names)  # the page's own code, from this repository
        assert "RULES" in names or "graph" in names or "gradient" in names
