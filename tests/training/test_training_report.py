"""What `train prepare` foretells holds: what blocks, what freezing or adapters would do, and the memory of a step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sardonyx import training
from sardonyx.model import Model
from sardonyx.report import Report
from sardonyx.training.advice import ADVICE
from sardonyx.training.alternatives import RANK
from sardonyx.training.forecast import foresee
from sardonyx.training.manifest import Manifest

HEAD = '<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)'
NUMBERS = ",".join(["0.5"] * 32)
# A hidden layer of 32 weights, through OPERATOR, and a last one of 24 and 3.
TWO = f"""{HEAD} <float[4,8] w = {{{NUMBERS}}}, float[8,3] v = {{{",".join(["0.1"] * 24)}}}, float[3] b = {{0,0,0}}>
{{ h = MatMul(x, w) a = OPERATOR z = MatMul(a, v) y = Add(z, b) }}"""
BLOCKED = "BLOCKS(h)"


def choices(report: Report) -> dict[str, dict[str, object]]:
    return {row["choice"]: row for row in report["alternatives"]}


def test_the_report_tells_what_each_choice_would_train(tmp_path: Path) -> None:
    report = training.prepare(Model.from_text(TWO.replace("OPERATOR", "Relu(h)")), tmp_path / "run", optimizer="adam")
    found = choices(report)
    assert {name: row["trainable"] for name, row in found.items()} == {
        "every weight": 59, "the last layer": 27, "adapters on every layer": RANK * (4 + 8) + RANK * (8 + 3),
    }  # fmt: skip
    # Each number that learns has a gradient, a next value and Adam's two moments, of four bytes each.
    assert found["the last layer"]["memory"] == 27 * 4 * 4
    assert "what can be trained" in report.to_text()


def test_each_choice_is_what_its_option_gives(tmp_path: Path) -> None:
    model = Model.from_text(TWO.replace("OPERATOR", "Relu(h)"))
    found = choices(training.prepare(model, tmp_path / "all"))
    last = training.prepare(model, tmp_path / "last", train=["v", "b"])
    assert found["the last layer"]["option"] == "--train 'v' --train 'b'"
    assert last["trainable"] == found["the last layer"]["trainable"]
    assert (
        training.prepare(model, tmp_path / "lora", lora=RANK)["trainable"]
        == found["adapters on every layer"]["trainable"]
    )


def test_a_blocked_model_is_told_what_is_left(tmp_path: Path) -> None:
    model = Model.from_text(TWO.replace("OPERATOR", "Relu(h)").replace("a = Relu(h)", "s = Det(q) a = Mul(h, s)").replace(
        "h = MatMul(x, w)", "h = MatMul(x, w) q = Slice(w, c0, c4, c1)").replace(
        "<float[4,8] w", "<int64[1] c0 = {0}, int64[1] c4 = {4}, int64[1] c1 = {1}, float[4,8] w"))  # fmt: skip
    report = training.prepare(model, tmp_path / "run")
    assert report.verdict == "blocked"
    assert [row["op_type"] for row in report["blockers"]] == ["Det"]
    found = choices(report)
    assert found["every weight"]["blocked"]
    assert found["what no node blocks"]["trainable"] == 27
    free = training.prepare(model, tmp_path / "run", freeze_blocked=True)
    assert free["trainable"] == 27
    adapters = training.prepare(model, tmp_path / "lora", freeze_blocked=True, lora=RANK)
    assert adapters["trainable"] == found["adapters on every layer"]["trainable"] == RANK * (8 + 3)


def test_every_operator_that_is_refused_has_its_advice() -> None:
    from gradient_page import uncovered

    assert not set(uncovered()) - set(ADVICE)
    page = (Path(__file__).parents[2] / "docs" / "guides" / "training.md").read_text()
    assert [op for op in ADVICE if f"`{op}`" not in page] == []


def test_a_blocking_node_is_named_with_what_to_do(tmp_path: Path) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 26]> g (float[n,4] x) => (float[n,4] y)
    <float[4,4] w = {{{",".join(["0.5"] * 16)}}}, int64 axis = {{1}}> {{ h = MatMul(x, w) y = CumProd(h, axis) }}"""
    report = training.prepare(Model.from_text(text), tmp_path / "run")
    assert report.verdict == "blocked"
    assert "CumSum" in report.findings[0].hint


def test_the_forecast_grows_with_the_batch(tmp_path: Path) -> None:
    report = training.prepare(Model.from_text(TWO.replace("OPERATOR", "Relu(h)")), tmp_path / "run", optimizer="adam")
    manifest, step = Manifest.open(tmp_path / "run"), Model.load(tmp_path / "run" / "step_model.onnx")
    small, large = (foresee(step, manifest, batch) for batch in (1000, 4000))
    assert small.state == 59 * 3 * 4
    assert small.at(4000) == pytest.approx(large.memory, rel=0.01)
    assert report["forecast"]["batch"] == report["trial_batch"] == 32
    assert report["seconds_per_step"] > 0


# The batch is large enough that the graph and not the runtime's own memory is measured.
NETWORKS = {"convolutional": 256, "resnet-20": 128, "lstm": 512}
WITHIN = 1.7


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("name", NETWORKS)
def test_the_memory_of_a_step_is_foretold_within_its_factor(tmp_path: Path, name: str) -> None:
    import torch

    from training_models import exported
    from training_walks import SUBJECTS

    torch.manual_seed(0)
    subject, batch = SUBJECTS[name], NETWORKS[name]
    model = exported(subject.make().train(), subject.draw()[0][0])
    training.prepare(model, tmp_path / "run", optimizer="adam")
    manifest, step = Manifest.open(tmp_path / "run"), Model.load(tmp_path / "run" / "step_model.onnx")
    foretold = foresee(step, manifest, batch).memory
    script = Path(__file__).parent.parent / "training_memory.py"
    words = [sys.executable, str(script), str(tmp_path / "run"), str(batch)]
    measured = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert 1 / WITHIN < measured / foretold < WITHIN, f"{measured / 1e6:.0f} MB, and {foretold / 1e6:.0f} foretold"
