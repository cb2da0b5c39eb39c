"""What all targets have in common: names, bundles, external data, refusals, and a folder that is whole or not there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sardonyx
import serving
from sardonyx import files, registry
from sardonyx.errors import BrokenModel, InputError, OutputError, RuntimeRefused, UsageError
from sardonyx.golden import Case, Golden, save
from sardonyx.model import Model
from sardonyx.package import triton
from sardonyx.report import Finding
from sardonyx.run.session import Session


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return serving.save("tiny", tmp_path / "tiny.onnx")


def test_every_target_keeps_the_contract() -> None:
    for name in registry.names("sardonyx.package"):
        plugin = registry.load("sardonyx.package", name)
        assert {"image", "storage_uri", "max_batch"} >= plugin.TAKES
        assert plugin.STEPS
        assert plugin.CODES
        assert callable(plugin.package)
        assert callable(plugin.check)


@pytest.mark.parametrize("target", registry.names("sardonyx.package"))
def test_every_target_writes_the_model_and_a_record_of_every_file(tmp_path: Path, tiny: Path, target: str) -> None:
    report = sardonyx.package(tiny, tmp_path / "out", target=target)
    assert (report.verdict, report["target"], report["name"]) == ("packaged", target, "tiny")
    record = json.loads((tmp_path / "out" / "sardonyx.json").read_text())
    assert record["target"] == target
    assert record["files"] == {
        str(path.relative_to(tmp_path / "out")): files.sha256(path)
        for path in sorted((tmp_path / "out").rglob("*"))
        if path.is_file() and path.name != "sardonyx.json"
    }
    (packaged,) = (tmp_path / "out").rglob("model.onnx")
    assert packaged.read_bytes() == tiny.read_bytes()
    assert any(str(tmp_path / "out") in step for step in report["steps"])
    assert not any("{" in step for step in report["steps"])


def test_a_package_is_replaced_and_other_folders_are_not(tmp_path: Path, tiny: Path) -> None:
    sardonyx.package(tiny, tmp_path / "out", target="triton", name="first")
    sardonyx.package(tiny, tmp_path / "out", target="triton", name="second")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["sardonyx.json", "second"]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").touch()
    with pytest.raises(OutputError, match="holds other files"):
        sardonyx.package(tiny, tmp_path / "work", target="triton")


def test_external_data_comes_along(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    path = tmp_path / "source" / "tiny.onnx"
    Model.from_text(serving.HEAD + serving.TEXTS["tiny"]).save(path, external_data=True)
    sardonyx.package(path, tmp_path / "out", target="triton")
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(
        Session(tmp_path / "out" / "tiny" / "1" / "model.onnx")({"x": x})["y"], Session(path)({"x": x})["y"]
    )


def test_a_model_in_memory_is_packaged(tmp_path: Path) -> None:
    model = Model.from_text(serving.HEAD + serving.TEXTS["tiny"])
    report = sardonyx.package(model, tmp_path / "out", target="triton")
    assert report["name"] == "model"
    assert (tmp_path / "out" / "model" / "1" / "model.onnx").is_file()


@pytest.mark.parametrize(("stem", "name"), [("my model", "my-model"), ("__x__", "x"), ("é: [1]", "1"), ("…", "model")])
def test_a_file_name_becomes_a_name_that_every_target_takes(tmp_path: Path, stem: str, name: str) -> None:
    report = sardonyx.package(serving.save("tiny", tmp_path / f"{stem}.onnx"), tmp_path / "out", target="triton")
    assert report["name"] == name


def keep_golden(bundle: Path, *, off: float = 0.0) -> Path:
    """A golden case of the bundle's model with the tolerance 1e-4, and an answer that is off by this much."""
    inputs = {"x": np.ones((1, 4), np.float32)}
    answer = Session(bundle / "model.onnx")(inputs)["y"] + np.float32(off)
    save(Golden((Case(inputs, {"y": answer}),), ({"y": (1e-4, 0.0)},)), bundle / "golden.safetensors")
    return bundle / "golden.safetensors"


def record(bundle: Path) -> None:
    """bundle.json with the hash of every file that is there."""
    hashes = {path.name: files.sha256(path) for path in bundle.iterdir() if path.name != "bundle.json"}
    (bundle / "bundle.json").write_text(json.dumps({"files": hashes}))


@pytest.mark.parametrize(("off", "verdict"), [(3e-5, "packaged"), (3e-3, "problems")])
def test_golden_cases_are_replayed_where_the_model_lies_in_the_package(
    tmp_path: Path, off: float, verdict: str
) -> None:
    bundle = tmp_path / "digits"
    bundle.mkdir()
    serving.save("tiny", bundle / "model.onnx")
    keep_golden(bundle, off=off)
    record(bundle)
    report = sardonyx.package(bundle, tmp_path / "out", target="triton")
    assert report.verdict == verdict
    assert (tmp_path / "out").exists() == (verdict == "packaged")
    assert [finding["code"] for finding in report["findings"]] == ["golden-case-broken"] * (verdict == "problems")


def test_a_bundle_is_packaged_with_its_golden_cases_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    bundle = tmp_path / "digits"
    bundle.mkdir()
    model = serving.save("tiny", bundle / "model.onnx")
    kept = keep_golden(bundle)
    record(bundle)
    assert sardonyx.package(bundle, tmp_path / "out", target="triton")["name"] == "digits"
    assert (tmp_path / "out" / "digits" / "1" / "golden.safetensors").read_bytes() == kept.read_bytes()
    serving.save("pair", model)
    with pytest.raises(BrokenModel, match="not the file that the bundle was made with"):
        sardonyx.package(bundle, tmp_path / "again", target="triton")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "abacus"}, "no target 'abacus'"),
        ({"target": "triton", "name": "../up"}, "cannot be called"),
        ({"target": "triton", "name": "a\nb"}, "cannot be called"),
        ({"target": "triton", "image": "x:1"}, "--image means nothing to triton"),
        ({"target": "docker", "storage_uri": "s3://x"}, "--storage-uri means nothing to docker"),
        ({"target": "triton", "max_batch": 0}, "cannot hold 0 rows"),
        ({"target": "kserve", "image": "UPPER case"}, "not the name of an image"),
        ({"target": "kserve", "storage_uri": "ftp://x"}, "fetches nothing"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(tmp_path: Path, tiny: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        sardonyx.package(tiny, tmp_path / "out", **options)  # type: ignore[arg-type]
    assert caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_type_that_no_server_exchanges_is_refused(tmp_path: Path) -> None:
    text = serving.HEAD + "(seq(float[n]) x) => (float[n] y) <int64 i = {0}> { y = SequenceAt(x, i) }"
    path = Model.from_text(text).save(tmp_path / "m.onnx")
    for target in registry.names("sardonyx.package"):
        with pytest.raises(RuntimeRefused, match="no such type"):
            sardonyx.package(path, tmp_path / "out", target=target)


def test_an_unknown_rank_is_refused_for_triton(tmp_path: Path, tiny: Path) -> None:
    model = Model.load(tiny)
    model.ir.graph.outputs[0].shape = None
    with pytest.raises(InputError, match="how many dimensions"):
        sardonyx.package(model, tmp_path / "out", target="triton")


def test_a_check_that_fails_leaves_nothing(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "check", lambda folder: [Finding("error", "triton-config", folder.name, "seeded")])
    report = sardonyx.package(tiny, tmp_path / "out", target="triton")
    assert (report.ok, report.verdict, report["path"]) == (False, "problems", None)
    assert report["findings"][0]["message"] == "seeded"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.onnx"]
