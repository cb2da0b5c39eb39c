"""A model that is loaded anew takes the old one's place only if it stands up to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import serving
from sardonyx.errors import BrokenModel
from sardonyx.golden import Case, Golden, save
from sardonyx.model import Model
from sardonyx.serve.options import Options
from sardonyx.serve.promote import must_be_good
from sardonyx.serve.repository import Entry
from sardonyx.serve.served import Served
from sardonyx.signature import Array
from serving import Answer, Running

CONTROL = {"control_port": 0, "control_token": "key"}
TEXT = serving.HEAD + serving.TEXTS["tiny"]
Y = {"y": [[70.0, 80.0, 90.0]]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return serving.repository(tmp_path, ("tiny",)) / "tiny" / "2" / "model.onnx"


def reload(server: Running) -> Answer:
    return server.post("/v2/repository/models/tiny/load", {}, headers={"X-API-Key": "key"}, port="control")


@pytest.mark.heavy
def test_a_model_that_answers_otherwise_is_refused_and_the_old_one_goes_on(model: Path) -> None:
    with serving.running(model.parents[2], promote_tolerance=1e-3, **CONTROL) as server:
        assert server.post("/predict", [1, 2, 3, 4]).json == Y
        Model.from_text(TEXT.replace("10,11,12", "10,11,13")).save(model)
        refused = reload(server)
        assert refused.status == 400
        assert (
            "output y differs from that of the model it replaces: by 4 at most, where 0.0955 is allowed"
            in refused.json["error"]
        )
        assert server.post("/predict", [1, 2, 3, 4]).json == Y


@pytest.mark.heavy
def test_one_that_agrees_is_promoted(model: Path) -> None:
    with serving.running(model.parents[2], promote_tolerance=1e-3, **CONTROL) as server:
        Model.from_text(TEXT.replace("10,11,12", "10,11,12.0001")).save(model)
        assert reload(server).status == 200
        found = server.post("/predict", [0, 0, 0, 1]).json["y"][0]
        assert found == pytest.approx([10, 11, 12.0001], rel=1e-6)
        assert found[2] != 12


@pytest.mark.heavy
def test_without_a_tolerance_another_answer_is_an_improvement(model: Path) -> None:
    with serving.running(model.parents[2], **CONTROL) as server:
        Model.from_text(TEXT.replace("10,11,12", "10,11,13")).save(model)
        assert reload(server).status == 200
        assert server.post("/predict", [1, 2, 3, 4]).json == {"y": [[70.0, 80.0, 94.0]]}


@pytest.mark.heavy
def test_other_tensors_are_another_model(model: Path) -> None:
    with serving.running(model.parents[2], promote_tolerance=1.0, **CONTROL) as server:
        Model.from_text(TEXT.replace(" y)", " z)").replace("y = Relu", "z = Relu")).save(model)
        assert "takes or gives other tensors" in reload(server).json["error"]


def test_golden_cases_must_hold_whatever_the_old_one_said(model: Path) -> None:
    served = Served(Entry("tiny", "2", model), Options(model, threads=1))
    inputs = np.ones((1, 4), np.float32)
    (right,) = served.run(("y",), [inputs])
    path = model.parent / "golden.safetensors"

    def keep(name: str, answer: Array, allowed: float) -> None:
        save(Golden((Case({name: inputs}, {"y": answer}),), ({"y": (0.0, allowed)},)), path)

    keep("x", right, 0.0)
    must_be_good(served, None, None)
    keep("x", right * np.float32(1.01), 1e-3)
    with pytest.raises(BrokenModel, match=r"its golden case: by 0.\d+ at most, where 0.0\d+ is allowed"):
        must_be_good(served, None, None)
    keep("z", right, 0.0)
    with pytest.raises(BrokenModel, match="does not hold the inputs"):
        must_be_good(served, None, None)


def test_golden_cases_are_judged_by_the_tolerance_that_was_kept_with_them(model: Path) -> None:
    """Neither a fixed number nor the share that the old model's answers may differ by takes its place."""
    served = Served(Entry("tiny", "2", model), Options(model, threads=1))
    inputs = np.ones((1, 4), np.float32)
    (right,) = served.run(("y",), [inputs])
    path, off = model.parent / "golden.safetensors", right * np.float32(1 + 1e-4)
    save(Golden((Case({"x": inputs}, {"y": off}),), ({"y": (0.0, 2e-4)},)), path)
    must_be_good(served, None, None)
    save(Golden((Case({"x": inputs}, {"y": off}),), ({"y": (0.0, 1e-5)},)), path)
    for share in (None, 0.5):
        with pytest.raises(BrokenModel, match="its golden case"):
            must_be_good(served, None, share)


def test_golden_cases_with_strings_are_replayed(tmp_path: Path) -> None:
    path = serving.save("text", tmp_path / "model.onnx")
    served = Served(Entry("text", "1", path), Options(path, threads=1))
    for answer in ("one", "two"):
        case = Case({"words": np.array([["one"]], object)}, {"same": np.array([[answer]], object)})
        save(Golden((case,), ({"same": (0.0, 0.0)},)), tmp_path / "golden.safetensors")
        if answer == "one":
            must_be_good(served, None, None)
        else:
            with pytest.raises(BrokenModel, match="1 strings differ"):
                must_be_good(served, None, None)


def test_a_file_without_tolerances_holds_no_golden_cases(model: Path) -> None:
    served = Served(Entry("tiny", "2", model), Options(model, threads=1))
    save_file({"0/input/x": np.ones((1, 4), np.float32)}, model.parent / "golden.safetensors")
    with pytest.raises(BrokenModel, match="does not hold golden cases"):
        must_be_good(served, None, None)


def test_rounding_is_no_other_answer_at_a_share_of_zero(model: Path) -> None:
    old = Served(Entry("tiny", "2", model), Options(model, threads=1, promote_tolerance=0.0))
    for factor, good in ((1 + 1e-6, True), (1 + 1e-3, False)):
        weight = f"{12 * factor:.9g}"
        changed = Model.from_text(TEXT.replace("10,11,12", f"10,11,{weight}")).save(model.with_name(f"{good}.onnx"))
        new = Served(Entry("tiny", "3", changed), Options(changed, threads=1))
        if good:
            must_be_good(new, old, 0.0)
        else:
            with pytest.raises(BrokenModel, match="the model it replaces"):
                must_be_good(new, old, 0.0)
