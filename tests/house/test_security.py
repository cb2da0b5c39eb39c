"""SECURITY.md promises nothing without a test, and names only tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "SECURITY.md").read_text()
LETTERS = {"B": "tests/serve/test_serve_bounds.py", "C": "tests/serve/test_serve_contained.py"}


def test_every_test_file_that_it_names_is_there() -> None:
    named = {*re.findall(r"tests/[\w/]+\.py", TEXT), *LETTERS.values()}
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_every_test_that_it_names_is_there() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"\b(test_\w+)(?!\.py)\b", TEXT)) - {
        Path(name).stem for name in re.findall(r"[\w/]+\.py", TEXT)
    }
    assert len(named) > 50
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []
