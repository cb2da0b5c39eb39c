"""The benchmarks measure what they say, and their page keeps its sections."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("run", "startup")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


@pytest.mark.parametrize("kind", ["process_seconds", "processor_seconds"])
def test_a_process_is_measured_and_its_failure_is_not(modules: dict[str, ModuleType], kind: str) -> None:
    measure = getattr(modules["startup"], kind)
    assert measure([sys.executable, "-c", "pass"]) > 0
    with pytest.raises(subprocess.CalledProcessError):
        measure([sys.executable, "-c", "raise SystemExit(1)"])


def test_the_page_keeps_the_sections_that_were_not_measured(modules: dict[str, ModuleType]) -> None:
    run = modules["run"]
    text = run.write({"one": "## One\n\nwords", "two": "## Two"})
    assert run.read(text) == {"one": "## One\n\nwords", "two": "## Two"}
    assert run.write(run.read(text)) == text
    assert run.read("") == {}


def test_every_benchmark_is_on_the_page(modules: dict[str, ModuleType]) -> None:
    known = {path.stem for path in FOLDER.glob("[!_]*.py")} - {"run"}
    assert known == set(modules["run"].read((FOLDER / "RESULTS.md").read_text())), "run `make bench`"
