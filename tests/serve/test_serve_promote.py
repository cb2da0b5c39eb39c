"""A model that is loaded anew takes the old one's place only if it stands up to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import serving
from sardonyx.errors import BrokenModel
from sardonyx.model import Model
from sardonyx.serve.engine import Served
from sardonyx.serve.options import Options
from sardonyx.serve.promote import must_be_good
from sardonyx.serve.repository import Entry
from serving import Answer, Running

CONTROL = {"control_port": 0, "control_token": "key"}
TEXT = serving.HEAD + serving.TEXTS["tiny"]
Y = {"y": [[70.0, 80.0, 90.0]]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return serving.repository(tmp_path, ("tiny",)) / "tiny" / "2" / "model.onnx"


def reload(server: Running) -> Answer:
    return server.post("/v2/repository/models/tiny/load", {}, headers={"X-API-Key": "key"}, port="control")


def test_a_model_that_answers_otherwise_is_refused_and_the_old_one_goes_on(model: Path) -> None:
    with serving.running(model.parents[2], promote_tolerance=1e-3, **CONTROL) as server:
        assert server.post("/predict", [1, 2, 3, 4]).json == Y
        Model.from_text(TEXT.replace("10,11,12", "10,11,13")).save(model)
        refused = reload(server)
        assert refused.status == 400
        assert "output y differs from that of the model it replaces, by 4.0 at most" in refused.json["error"]
        assert server.post("/predict", [1, 2, 3, 4]).json == Y


def test_one_that_agrees_is_promoted(model: Path) -> None:
    with serving.running(model.parents[2], promote_tolerance=1e-3, **CONTROL) as server:
        Model.from_text(TEXT.replace("10,11,12", "10,11,12.0001")).save(model)
        assert reload(server).status == 200
        found = server.post("/predict", [0, 0, 0, 1]).json["y"][0]
        assert found == pytest.approx([10, 11, 12.0001], rel=1e-6)
        assert found[2] != 12


def test_without_a_tolerance_another_answer_is_an_improvement(model: Path) -> None:
    with serving.running(model.parents[2], **CONTROL) as server:
        Model.from_text(TEXT.replace("10,11,12", "10,11,13")).save(model)
        assert reload(server).status == 200
        assert server.post("/predict", [1, 2, 3, 4]).json == {"y": [[70.0, 80.0, 94.0]]}


def test_other_tensors_are_another_model(model: Path) -> None:
    with serving.running(model.parents[2], promote_tolerance=1.0, **CONTROL) as server:
        Model.from_text(TEXT.replace(" y)", " z)").replace("y = Relu", "z = Relu")).save(model)
        assert "takes or gives other tensors" in reload(server).json["error"]


def test_golden_cases_must_hold_whatever_the_old_one_said(model: Path) -> None:
    served = Served(Entry("tiny", "2", model), Options(model, threads=1))
    inputs = np.ones((1, 4), np.float32)
    (right,) = served.run(("y",), [inputs])
    golden = model.parent / "golden.safetensors"
    save_file({"0/input/x": inputs, "0/output/y": right}, golden)
    must_be_good(served, None, None)
    save_file({"0/input/x": inputs, "0/output/y": right * 1.01}, golden)
    with pytest.raises(BrokenModel, match="its golden case"):
        must_be_good(served, None, None)
    save_file({"0/input/x": inputs}, golden)
    with pytest.raises(BrokenModel, match="does not hold the tensors"):
        must_be_good(served, None, None)
