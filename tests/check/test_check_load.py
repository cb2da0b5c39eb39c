"""How the trial load ended decides the verdict, and what it may use grows with the model."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

import hostile
from checking import HEAD, LOADED, findings, subject
from sardonyx.check._subject import Budget, Load, State, _load_of, opened
from sardonyx.check._targets import cpu
from sardonyx.child import Outcome

GOOD = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"


def test_a_model_that_loads_has_nothing_to_say() -> None:
    assert findings("load", subject(GOOD)) == []
    assert cpu.runs_on(subject(GOOD)).ok


@pytest.mark.parametrize("state", ["refused", "crashed", "timeout", "memory"])
def test_every_other_end_is_an_error_with_a_hint(state: State) -> None:
    model = subject(GOOD, load=Load(state, "the reason"))
    (found,) = findings("load", model)
    assert (found.severity, found.code) == ("error", f"load-{state}")
    assert found.hint
    answer = cpu.runs_on(model)
    assert not answer.ok
    assert answer.reason


def test_a_load_that_was_not_tried_says_why() -> None:
    model = subject(GOOD, load=Load("skipped", "its external data is not safe to open"))
    assert findings("load", model) == []
    assert cpu.runs_on(model).reason == "not loaded: its external data is not safe to open"


def test_versions_that_only_another_release_knows_excuse_the_refusal_here() -> None:
    refused = Load("refused", "the reason")
    assert findings("load", subject(GOOD, load=refused, ort="1.20"))[0].severity == "error"
    newer = GOOD.replace("ir_version: 8", "ir_version: 99")
    assert findings("load", subject(newer, load=refused, ort="1.20"))[0].severity == "warning"
    assert findings("load", subject(newer, load=refused))[0].severity == "error"


def test_an_optimizer_that_ran_out_of_memory_and_went_on_is_a_memory_bomb() -> None:
    answer = {"loaded": True, "message": "", "seconds": 0.1}
    words = "Exception during constant folding of ConstantOfShape node '': std::bad_alloc. Skipping"
    assert _load_of(Outcome("answered", answer, "")).state == "loaded"
    assert _load_of(Outcome("answered", answer, words)).state == "memory"


@pytest.mark.parametrize("end", ["crashed", "timeout", "memory"])
def test_a_child_that_did_not_answer_is_told_by_its_end(end: str) -> None:
    assert _load_of(Outcome(end, {}, "", "killed by SIGSEGV")).state == end  # type: ignore[arg-type]


def test_a_larger_model_gets_more_time_and_memory() -> None:
    small, large = Budget.of(1000, 10, None), Budget.of(1 << 30, 10, None)
    assert (large.cpu, large.memory) > (small.cpu + 30, small.memory + (1 << 32))
    assert Budget.of(1000, 100_000, None).cpu > small.cpu
    assert (Budget.of(1 << 30, 10, 3).cpu, Budget.of(1 << 30, 10, 3).clock) == (3, 3)


@pytest.mark.heavy
def test_both_children_answer_for_a_good_model(tmp_path: Path) -> None:
    with opened(hostile.written(tmp_path, GOOD)) as model:
        assert model.load.state == LOADED.state
        assert model.examination.checker is None
        assert model.examination.shapes is None
        assert [place.types["y"] for place in model.places] == ["tensor(float)"]


@pytest.mark.heavy
def test_the_children_end_with_the_block(tmp_path: Path) -> None:
    """An interrupted check leaves nobody behind."""
    path, before = hostile.endless_load(tmp_path), own_children()
    at_work: set[int] = set()
    with suppress(KeyboardInterrupt), opened(path):
        at_work = own_children() - before
        raise KeyboardInterrupt
    assert len(at_work) == 2
    assert not at_work & own_children()


def own_children() -> set[int]:
    """The processes that this one started and that have not ended."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = status.read_text().rpartition(")")[2].split()[1]
            found |= {int(status.parent.name)} if int(parent) == os.getpid() else set()
    return found
