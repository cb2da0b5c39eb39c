"""Tuned settings are measured, gated, stored in the model, and used where the machine is the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import faulty_runtime
import sardonyx
from sardonyx import machine
from sardonyx.bench.ratio import Ratio
from sardonyx.deadline import OUT_OF_TIME, Deadline
from sardonyx.errors import BrokenModel
from sardonyx.model import Model
from sardonyx.optimize import tournament
from sardonyx.optimize.gate import Gate
from sardonyx.optimize.tuning import Trial, best_of, changes_numbers, choices
from sardonyx.run.session import DEFAULTS, SETTINGS_KEY, Session, Settings, options, store, store_level

HEAD = '<ir_version: 8, opset_import: ["": 18]>'
RELU = f"{HEAD} g (float[n,8] x) => (float[n,8] y) {{ y = Relu(x) }}"
# Its middle is so small that only numbers below the normal range hold it.
TINY = f"""{HEAD} g (float[n,8] x) => (float[n,8] y) <float small = {{1e-20}}, float large = {{1e38}}> {{
  a = Mul(x, small) b = Mul(a, a) c = Mul(b, large) y = Relu(c)
}}"""


def test_what_is_set_is_handed_to_the_runtime() -> None:
    chosen = options(Settings(threads=1, spinning=False, arena=False, prepacking=False, denormals_as_zero=True))
    assert chosen.intra_op_num_threads == 1
    assert chosen.enable_cpu_mem_arena is False
    assert chosen.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert chosen.get_session_config_entry("session.disable_prepacking") == "1"
    assert chosen.get_session_config_entry("session.set_denormal_as_zero") == "1"


def test_stored_settings_fill_what_is_left_open() -> None:
    model = Model.from_text(RELU)
    store(model, Settings(threads=1, spinning=False))
    assert Session(model).settings == Settings(threads=1, spinning=False)
    assert Session(model, Settings(threads=2, arena=False)).settings == Settings(threads=2, spinning=False, arena=False)


def test_run_uses_stored_settings(tmp_path: Path) -> None:
    model = Model.from_text(RELU)
    store(model, Settings(threads=1))
    path = model.save(tmp_path / "m.onnx")
    assert sardonyx.run(path)["threads"] == 1
    assert sardonyx.run(path, threads=2)["threads"] == 2


def test_settings_of_another_machine_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.from_text(RELU)
    store(model, Settings(threads=1, spinning=False))
    monkeypatch.setattr(machine, "cpu_name", lambda: "another")
    assert Session(model).settings == DEFAULTS


BROKEN = {
    "no json": "{",
    "no object": "[]",
    "no machine": json.dumps({"settings": {}}),
    "an unknown setting": json.dumps({"settings": {"speed": 1}, "machine": {}}),
    "a wrong type": json.dumps({"settings": {"threads": True}, "machine": {}}),
    "no threads": json.dumps({"settings": {"threads": 0}, "machine": {}}),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_metadata_that_holds_no_settings_is_named(fault: str) -> None:
    model = Model.from_text(RELU)
    model.ir.metadata_props[SETTINGS_KEY] = BROKEN[fault]
    with pytest.raises(BrokenModel, match=SETTINGS_KEY):
        Session(model)


@pytest.mark.heavy
def test_a_setting_that_changes_the_numbers_is_not_used(tmp_path: Path) -> None:
    path = Model.from_text(TINY).save(tmp_path / "m.onnx")
    gate = Gate(path, Model.load(path).signature, {"x": np.full((4, 8), 0.3, np.float32)}, 0)
    assert changes_numbers(path, gate, DEFAULTS, Deadline(120)) == ""
    assert changes_numbers(path, gate, Settings(denormals_as_zero=True), Deadline(120)).startswith("y on")
    assert changes_numbers(path, gate, DEFAULTS, Deadline(0.01)) == OUT_OF_TIME


def test_only_what_is_faster_is_kept_and_of_each_setting_the_fastest() -> None:
    trials = [
        Trial("threads", 1, Ratio(1.2, 1.1, 1.3)),
        Trial("threads", 3, Ratio(1.5, 1.4, 1.6)),
        Trial("spinning", False, Ratio(1.1, 0.9, 1.3)),
        Trial("arena", False, Ratio(0.5, 0.4, 0.6)),
        Trial("denormals_as_zero", True, None, "changes the numbers"),
    ]
    assert best_of(trials) == Settings(threads=3)


def test_the_choices_fit_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "threads", lambda: 1)
    assert not [value for name, value in choices() if name == "threads"]
    monkeypatch.setattr(machine, "threads", lambda: 8)
    assert [value for name, value in choices() if name == "threads"] == [1, 4, 7]


@pytest.mark.heavy
@pytest.mark.rest
def test_tune_reports_every_trial_and_stores_what_it_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tournament, "ways", lambda _: [])
    path = Model.from_text(RELU).save(tmp_path / "m.onnx")
    report = tournament.hold(
        path, tmp_path / "out.onnx", level="portable", shapes={}, explain=False, tune=True, data=None, limit=Deadline(240),
        measuring=0.3, seed=0,
    )  # fmt: skip
    assert {trial["setting"] for trial in report["tuning"]["trials"]} == {name for name, _ in choices()}
    kept = Model.load(report["path"]).ir.metadata_props.get(SETTINGS_KEY)
    assert (json.loads(kept)["settings"] if kept else {}) == report["settings"]
    assert report.verdict == ("optimized" if kept else "unchanged")


@pytest.mark.heavy
def test_settings_are_tried_at_the_level_that_the_model_says(tmp_path: Path) -> None:
    """With all of onnxruntime's optimisations every setting would change this model's answers."""
    path = faulty_runtime.save(tmp_path)
    gate = Gate(path, Model.load(path).signature, None, 0)
    assert changes_numbers(path, gate, DEFAULTS, Deadline(120)) != ""
    model = Model.load(path)
    store_level(model, "basic")
    assert changes_numbers(model.save(tmp_path / "safe.onnx"), gate, DEFAULTS, Deadline(120)) == ""
