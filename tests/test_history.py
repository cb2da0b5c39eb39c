"""A model's history survives the file and refuses nonsense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sardonyx
from sardonyx import history
from sardonyx.errors import BrokenModel, SardonyxError
from sardonyx.history import Step
from sardonyx.model import Model

RELU = '<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
WORDS = st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.integers()), max_size=3)
ANY_JSON = st.recursive(
    st.none() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["verb", "options", "x"]), inner),
    max_leaves=6,
)


def test_a_step_records_the_versions_that_decide_what_a_model_computes() -> None:
    step = history.step("convert", options={"route": "trace"}, also=("pytest",), seconds=1.5)
    assert step.versions["sardonyx"] == sardonyx.__version__
    assert {"onnx", "onnxruntime", "onnx-ir", "numpy", "pytest"} <= set(step.versions)
    assert step.options == {"route": "trace"}
    assert step.notes == {"seconds": 1.5}


def test_a_distribution_that_is_not_installed_is_left_out() -> None:
    assert "no-such-distribution" not in history.versions("no-such-distribution")


@settings(max_examples=30)
@given(st.lists(st.builds(Step, st.text(), WORDS, st.dictionaries(st.text(), st.text()), WORDS), max_size=3))
def test_a_history_survives_writing_and_reading(steps: list[Step]) -> None:
    assert history.loads(history.dumps(tuple(steps))) == tuple(steps)


def test_steps_gather_in_the_model_and_survive_the_file(tmp_path: Path) -> None:
    model = Model.from_text(RELU).record(Step("convert")).record(Step("optimize", {"passes": ["fold"]}))
    model.save(tmp_path / "m.onnx")
    assert Model.load(tmp_path / "m.onnx").history == (Step("convert"), Step("optimize", {"passes": ["fold"]}))


def test_a_model_without_a_history_has_an_empty_one() -> None:
    assert Model.from_text(RELU).history == ()


@pytest.mark.parametrize(
    "text",
    ["{", "null", "7", "[1]", '["verb"]', "[{}]", '[{"verb": 1}]', '[{"verb": "a", "options": []}]', '{"verb": "a"}',
     '[{"verb": "a", "extra": 1}]', '[{"verb": "a", "versions": null}]', "[" * 100_000, f"[{'9' * 5000}]", "\\ud800"],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_hostile_metadata_is_named_and_nothing_else_happens(text: str) -> None:
    model = Model.from_text(RELU)
    model.ir.metadata_props[history.KEY] = text
    with pytest.raises(BrokenModel, match=r"sardonyx\.history") as caught:
        _ = model.history
    assert history.KEY in caught.value.hint


@given(ANY_JSON)
def test_any_json_is_a_history_or_an_error_of_ours(value: Any) -> None:
    try:
        steps = history.loads(json.dumps(value))
    except SardonyxError:
        return
    assert all(isinstance(step, Step) for step in steps)
