"""The verbs on a folder: train, stop, go on exactly, refuse bad data and keep the last good checkpoint."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

import sardonyx
from sardonyx import training
from sardonyx.errors import BadData, OutputError, UsageError
from sardonyx.files import sha256
from sardonyx.model import Model
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.schedules import SCHEDULES, rate

TEXT = """<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)
<float[4,8] w = {WEIGHTS}, float[8] b = {0.1,0,0,0,0,0,0,0.2}, float[8,3] v = {OTHERS}>
{ z = MatMul(x, w) a = Add(z, b) h = Relu(a) r = Constant<value = float {0.2}>() d = Dropout(h, r) y = MatMul(d, v) }"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    weights, others = (",".join(map(str, random.normal(size=n).round(3))) for n in (32, 24))
    model = Model.from_text(TEXT.replace("WEIGHTS", weights).replace("OTHERS", others))
    assert training.prepare(model, tmp_path / "run", optimizer="adam").verdict == "prepared"
    return tmp_path / "run"


def rows(count: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 4)).astype(np.float32)
    return {"x": x, "label": x[:, :3].argmax(1)}


def test_a_run_learns_and_reports_every_epoch(folder: Path) -> None:
    report = sardonyx.train(folder, data=rows(), valid=rows(seed=1), epochs=15, lr=0.05)
    assert report.verdict == "trained"
    assert len(report["history"]) == 15
    assert report["metrics"]["accuracy"] > 0.8
    assert report["history"][-1]["loss"] < report["history"][0]["loss"]
    assert training.evaluate(folder, data=rows(seed=1))["metrics"]["accuracy"] == report["metrics"]["accuracy"]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_resumed_run_is_the_run_that_never_stopped(folder: Path, accumulate: int) -> None:
    plan = {"batch_size": 8, "lr": 0.05, "schedule": "cosine", "accumulate": accumulate, "seed": 3, "save_every": 2}
    whole = sardonyx.train(folder, data=rows(), epochs=4, **plan)
    expected = CheckpointState.load_checkpoint(folder / "last")
    calls = 0

    def failing(step: object) -> object:
        def wrapped(self: object, *words: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 11:
                raise KeyboardInterrupt
            return step(self, *words)  # type: ignore[operator]

        return wrapped

    from sardonyx.training import stepper

    kind = stepper.FusedStep if accumulate == 1 else stepper.AccumulatedStep
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "step", failing(kind.step))
        with pytest.raises(KeyboardInterrupt):
            sardonyx.train(folder, data=rows(), epochs=4, restart=True, **plan)
    resumed = sardonyx.train(folder, data=rows(), epochs=4, resume=True)
    found = CheckpointState.load_checkpoint(folder / "last")
    assert found.step == expected.step
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert [row["loss"] for row in resumed["history"]] == [row["loss"] for row in whole["history"]]


def test_patience_ends_a_run_that_does_not_improve(folder: Path) -> None:
    report = sardonyx.train(folder, data=rows(), valid=rows(seed=1), epochs=50, lr=0.0, patience=2)
    assert report.verdict == "stopped-early"
    assert report["epochs"] == 4


def test_a_trained_folder_is_not_overwritten_unasked(folder: Path) -> None:
    sardonyx.train(folder, data=rows())
    with pytest.raises(UsageError, match="has been trained"):
        sardonyx.train(folder, data=rows())
    with pytest.raises(OutputError, match="holds a trained run"):
        training.prepare(Model.from_text('<ir_version: 10, opset_import: ["": 20]> g () => () {}'), folder)
    assert sardonyx.train(folder, data=rows(), restart=True).ok


def test_the_export_equals_the_evaluation_graph(folder: Path, tmp_path: Path) -> None:
    sardonyx.train(folder, data=rows(), epochs=2)
    report = training.export(folder, tmp_path / "m.onnx")
    assert report.verdict == "exported"
    assert report["max_error"] == 0
    assert Model.load(tmp_path / "m.onnx").signature.input_names == ["x"]


def test_a_label_out_of_range_stops_before_the_first_step(folder: Path) -> None:
    data = rows()
    data["label"] = data["label"] + 1
    with pytest.raises(BadData, match="class 3, and the model has the classes 0 to 2"):
        sardonyx.train(folder, data=data)
    assert not (folder / "last").exists()


def test_nan_in_the_data_is_named_and_the_last_checkpoint_is_intact(folder: Path) -> None:
    sardonyx.train(folder, data=rows(), batch_size=8)
    before = sha256(folder / "last")
    data = rows()
    data["x"][30, 2] = np.nan
    with pytest.raises(BadData, match=r"epoch 2, batch .*: x holds NaN or infinity"):
        sardonyx.train(folder, data=data, epochs=2, resume=True)
    assert sha256(folder / "last") == before


def test_a_run_that_diverges_is_told_from_bad_data(folder: Path) -> None:
    data = rows()
    data["x"] *= 3e37
    with pytest.raises(BadData, match="training has diverged"):
        sardonyx.train(folder, data=data, lr=1.0)


def test_data_of_a_wrong_shape_or_without_labels_is_named(folder: Path) -> None:
    with pytest.raises(BadData, match="x"):
        sardonyx.train(folder, data={"x": np.zeros((6, 5), np.float32), "label": np.zeros(6, int)})
    with pytest.raises(BadData, match="no labels"):
        sardonyx.train(folder, data={"x": np.zeros((6, 4), np.float32)})


def test_a_full_disk_leaves_the_last_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sardonyx.train(folder, data=rows())
    before = sha256(folder / "last")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left on device"):
        sardonyx.train(folder, data=rows(), epochs=2, resume=True)
    assert sha256(folder / "last") == before
    assert not list(folder.glob(".*.part"))


BLOCKED = """<ir_version: 10, opset_import: ["": 20]> g (float[n,3] x) => (float[n,3] y)
<float[3,3] w = {1,0,0, 0,2,0, 0,0,3}, float[3] v = {1,1,1}> { a = MatMul(x, w) h = OPERATOR c = Add(h, a) y = Mul(c, v) }"""


def test_what_stops_the_gradient_is_reported_and_can_be_frozen(tmp_path: Path) -> None:
    model = Model.from_text(BLOCKED.replace("OPERATOR", "Det(w)"))
    report = training.prepare(model, tmp_path / "run")
    assert report.verdict == "blocked"
    assert report["blockers"][0]["behind"] == ["w"]
    assert "--freeze" in report.findings[0].hint
    assert not (tmp_path / "run").exists()
    frozen = training.prepare(model, tmp_path / "run", freeze_blocked=True)
    assert frozen.verdict == "prepared"
    assert frozen["frozen"] == ["w"]
    assert [row["name"] for row in frozen["parameters"]] == ["v"]


def test_every_schedule_starts_at_its_rate_and_never_rises() -> None:
    for name in SCHEDULES:
        rates = [rate(name, 0.5, step, 30) for step in range(30)]
        assert rates[0] == 0.5
        assert rates == sorted(rates, reverse=True)
    assert rate("constant", 1.0, 0, 10, warmup=4) == 0.25
