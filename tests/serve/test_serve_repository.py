"""What is found in a source and what is refused: links, tampered bundles, broken models, wrong tokens."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import serving
from sardonyx.errors import BrokenModel, InputError, NotFound, UsageError
from sardonyx.files import sha256
from sardonyx.model import Model
from sardonyx.serve.access import Access
from sardonyx.serve.options import Batching, Options
from sardonyx.serve.refusal import Refusal
from sardonyx.serve.repository import find, named
from serving import tensor

CONTROL = {"control_port": 0, "control_token": "key"}
KEY = {"Authorization": "Bearer key"}


def test_a_file_a_bundle_and_a_repository_are_told_apart(tmp_path: Path, models: Path) -> None:
    path = serving.save("tiny", tmp_path / "digits.onnx")
    assert [(entry.name, entry.version) for entry in find(path)] == [("digits", "1")]
    bundle = tmp_path / "shop"
    bundle.mkdir()
    serving.save("tiny", bundle / "model.onnx")
    (bundle / "bundle.json").write_text(json.dumps({"files": {"model.onnx": sha256(bundle / "model.onnx")}}))
    assert [(entry.name, entry.path) for entry in find(bundle)] == [("shop", bundle / "model.onnx")]
    assert [entry.version for entry in named(models, "tiny")] == ["1", "2"]
    assert named(models, "../models/tiny") == []


def test_versions_are_ordered_as_numbers(tmp_path: Path) -> None:
    for version in ("9", "10", "x", ".2"):
        (tmp_path / "m" / version).mkdir(parents=True)
        serving.save("tiny", tmp_path / "m" / version / "model.onnx")
    assert [entry.version for entry in find(tmp_path)] == ["9", "10"]


def test_a_source_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no model"):
        find(tmp_path)
    with pytest.raises(NotFound, match="does not exist"):
        find(tmp_path / "none")


def test_a_bundle_whose_model_was_changed_is_refused(tmp_path: Path) -> None:
    serving.save("tiny", tmp_path / "model.onnx")
    (tmp_path / "bundle.json").write_text(json.dumps({"files": {"model.onnx": "0" * 64}}))
    with pytest.raises(BrokenModel, match="not the file that the bundle was made with"):
        find(tmp_path)
    (tmp_path / "bundle.json").write_text("[]")
    with pytest.raises(InputError, match="not the record of a bundle"):
        find(tmp_path)


def test_a_changed_bundle_in_a_repository_is_refused_and_logged_and_the_others_are_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    serving.repository(tmp_path, ("pair",))
    (tmp_path / "changed").mkdir()
    serving.save("tiny", tmp_path / "changed" / "model.onnx")
    (tmp_path / "changed" / "bundle.json").write_text(json.dumps({"files": {"model.onnx": "0" * 64}}))
    assert [entry.name for entry in find(tmp_path)] == ["pair"]
    assert "changed" in caplog.text


def test_a_link_out_of_the_repository_is_refused_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside = serving.save("tiny", tmp_path / "secret.onnx")
    inside = serving.repository(tmp_path / "models", ("pair",))
    (inside / "stolen" / "1").mkdir(parents=True)
    (inside / "stolen" / "1" / "model.onnx").symlink_to(outside)
    assert [entry.name for entry in find(inside)] == ["pair"]
    assert "leads out of the repository" in caplog.text


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_linked_external_data_are_refused_and_logged_and_the_others_served(
    tmp_path: Path, link: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = serving.repository(tmp_path / "models", ("pair",)) / "leak" / "1"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    proto = Model.from_text(serving.HEAD + serving.TEXTS["tiny"]).to_proto()
    (weight,) = proto.graph.initializer
    weight.ClearField("raw_data")
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="data")
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    (os.symlink if link == "symbolic" else os.link)(tmp_path / "secret", folder / "data")
    with serving.running(tmp_path / "models", **CONTROL) as server:
        assert server.get("/v2/models/leak").status == 404
        assert server.get("/v2/models/pair").status == 200
        index = server.post("/v2/repository/index", {}, headers=KEY, port="control").json
        row = next(row for row in index if row["name"] == "leak")
        assert row["state"] == "UNAVAILABLE"
        assert "is a link" in row["reason"]
        assert server.post("/v2/repository/models/leak/load", {}, headers=KEY, port="control").status == 400
    assert "is a link" in caplog.text


@pytest.mark.heavy
def test_a_source_of_bad_models_alone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad" / "1").mkdir(parents=True)
    (tmp_path / "bad" / "1" / "model.onnx").write_text("no model")
    with pytest.raises(InputError, match="ONNX"), serving.running(tmp_path):
        pass


def test_models_are_loaded_and_unloaded_under_control(tmp_path: Path) -> None:
    source = serving.repository(tmp_path, ("tiny", "pair"))
    message = {"inputs": [tensor("x", np.array([[1, 2, 3, 4]]), "FP32")]}
    with serving.running(source, **CONTROL) as server:
        assert server.post("/v2/repository/models/tiny/unload", {}, headers=KEY, port="control").json == {}
        assert server.post("/v2/models/tiny/infer", message).status == 404
        index = server.post("/v2/repository/index", {}, headers=KEY, port="control").json
        assert {(row["name"], row["version"]): row["state"] for row in index} == {
            ("pair", "1"): "READY", ("tiny", "1"): "UNAVAILABLE", ("tiny", "2"): "UNAVAILABLE",
        }  # fmt: skip
        assert server.post("/v2/repository/models/tiny/load", {}, headers=KEY, port="control").json == {}
        assert server.post("/v2/models/tiny/infer", message).json["model_version"] == "2"
        assert server.post("/v2/repository/models/..%2Fpair/load", {}, headers=KEY, port="control").status == 404
        assert server.get("/v2/repository/index", headers=KEY, port="control").status == 405
        assert server.post("/v2/repository/index", {}, headers={"X-API-Key": "no"}, port="control").status == 401


def test_control_is_not_on_the_port_of_everyone(models: Path) -> None:
    with serving.running(models) as server:
        assert server.post("/v2/repository/index", {}).status == 404
        assert list(server.server.ports) == ["http"]


# Access.


def test_tokens_are_for_all_models_or_for_some(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# who may what\nall-of-them\nonly-some tiny pair\n")
    access = Access((), file)
    access.check(b"all-of-them", "text")
    access.check(b"only-some", "pair")
    access.check(b"only-some")
    for token, model, status in ((b"only-some", "text", 403), (b"guess", "tiny", 401), (None, "tiny", 401)):
        with pytest.raises(Refusal) as refused:
            access.check(token, model)
        assert refused.value.status == status
    Access().check(None, "anything")


def test_a_wrong_token_is_401_over_http_and_logged(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving.running(models, tokens=("secret",)) as server:
        assert server.get("/v2/health/ready").status == 200
        for path in ("/v2/models/tiny", "/metrics", "/v2/models/stats"):
            answer = server.get(path, headers={"Authorization": "Bearer guess"})
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert server.get(path, headers={"Authorization": "Bearer secret"}).status == 200
        assert server.post("/predict/tiny", [1, 2, 3, 4]).status == 401
        good = server.post("/v2/models/tiny/infer", {"inputs": []}, headers={"X-API-Key": "secret"})
        assert good.status == 400
        assert server.post("/v2/models/tiny/infer", {"inputs": []}).status == 401
    assert "refused a request with a wrong token" in caplog.text


def test_options_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for wrong in (
        {"workers": 0}, {"tls_cert": tmp_path}, {"control_port": 1}, {"control_token": "x"},
        {"control_port": 1, "control_token": "x", "workers": 2},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            Options(tmp_path, **wrong)  # type: ignore[arg-type]
    for wrong in ({"most": 0}, {"queue": 0}, {"delay_seconds": -1.0}, {"timeout_seconds": 0.0}):
        with pytest.raises(UsageError):
            Batching(**wrong)  # type: ignore[arg-type]
    for text in ("", "# nothing\n"):
        (tmp_path / "tokens").write_text(text)
        with pytest.raises(UsageError, match="no token"):
            Access((), tmp_path / "tokens")
    with pytest.raises(UsageError, match="empty"):
        Access(("",))
