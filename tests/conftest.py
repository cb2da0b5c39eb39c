"""Settings that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run beside each other. Threads of a framework that spin while they wait would take the processors from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# No deadline: a loaded machine is slow, not wrong.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


_MARKS = pytest.StashKey[dict[str, list[str]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remembers the marks of every test before `-m` leaves some out."""
    config.stash[_MARKS] = {item.nodeid: [mark.name for mark in item.iter_markers()] for item in items}


@pytest.fixture
def every_test(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Every test there is, and its marks. Only a run of the whole suite collects them all."""
    if list(request.config.args) != ["tests"] or request.config.option.markexpr == "not heavy":
        pytest.skip("the whole suite was not collected: run make test or make test-rest")
    return request.config.stash[_MARKS]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves files that are heavy as a whole unread where heavy tests are left out: they import frameworks."""
    if config.option.markexpr != "not heavy" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return True if "\npytestmark = pytest.mark.heavy" in text or "\npytestmark = [pytest.mark.heavy" in text else None
