"""The benchmarks measure what they say: turns, ratios and intervals, and a page that keeps its sections."""

from __future__ import annotations

import importlib
import random
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
    names = ("_interleave", "run", "startup")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


def test_a_ratio_is_found_again_within_its_interval(modules: dict[str, ModuleType]) -> None:
    """One variant is 1.5 times the other, both with the same kind of noise, and a busy spell in the middle."""
    noise = random.Random(1)
    busy = [3.0 if 20 < turn < 40 else 1.0 for turn in range(60)]
    slow = [1.5 * load * noise.uniform(0.9, 1.1) for load in busy]
    fast = [1.0 * load * noise.uniform(0.9, 1.1) for load in busy]
    found = modules["_interleave"].ratio(slow, fast)
    assert found.low <= 1.5 <= found.high
    assert 1 < found.low < found.median < found.high


def test_no_difference_has_one_in_its_interval(modules: dict[str, ModuleType]) -> None:
    noise = random.Random(2)
    a, b = ([noise.uniform(0.8, 1.2) for _ in range(40)] for _ in range(2))
    found = modules["_interleave"].ratio(a, b)
    assert found.low <= 1 <= found.high


def test_every_variant_gets_a_turn_in_every_round(modules: dict[str, ModuleType]) -> None:
    seen: list[str] = []

    def variant(name: str) -> float:
        seen.append(name)
        return float(len(seen))

    found = modules["_interleave"].take_turns([lambda: variant("a"), lambda: variant("b")], rounds=5)
    assert [len(times) for times in found] == [5, 5]
    rounds = [set(seen[start : start + 2]) for start in range(2, 12, 2)]
    assert rounds == [{"a", "b"}] * 5


@pytest.mark.parametrize("kind", ["process_seconds", "processor_seconds"])
def test_a_process_is_measured_and_its_failure_is_not(modules: dict[str, ModuleType], kind: str) -> None:
    measure = getattr(modules["_interleave"], kind)
    assert measure([sys.executable, "-c", "pass"])() > 0
    with pytest.raises(subprocess.CalledProcessError):
        measure([sys.executable, "-c", "raise SystemExit(1)"])()


def test_the_page_keeps_the_sections_that_were_not_measured(modules: dict[str, ModuleType]) -> None:
    run = modules["run"]
    text = run.write({"one": "## One\n\nwords", "two": "## Two"})
    assert run.read(text) == {"one": "## One\n\nwords", "two": "## Two"}
    assert run.write(run.read(text)) == text
    assert run.read("") == {}


def test_every_benchmark_is_on_the_page(modules: dict[str, ModuleType]) -> None:
    known = {path.stem for path in FOLDER.glob("[!_]*.py")} - {"run"}
    assert known == set(modules["run"].read((FOLDER / "RESULTS.md").read_text())), "run `make bench`"
