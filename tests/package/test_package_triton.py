"""A Triton repository: its configuration is read by Triton's own schema, and our server answers from it as from the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import real
import sardonyx
import serving
from sardonyx.model import Model
from sardonyx.package import _prototext as prototext
from sardonyx.package import triton
from sardonyx.package._prototext import Word
from sardonyx.run.session import Session, store_level
from sardonyx.serve.client import Client


def packaged(tmp_path: Path, name: str, **options: Any) -> Path:
    folder = tmp_path / f"{name}-repository"
    report = sardonyx.package(serving.save(name, tmp_path / f"{name}.onnx"), folder, target="triton", **options)
    assert report.ok
    return folder


def config(folder: Path) -> Any:
    """The configuration as Triton's own schema reads it."""
    text_format = pytest.importorskip("google.protobuf.text_format")
    schema = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    (path,) = folder.glob("*/config.pbtxt")
    return text_format.Parse(path.read_text(), schema.ModelConfig())


@pytest.mark.heavy
def test_tritons_schema_reads_names_types_and_dimensions(tmp_path: Path) -> None:
    found = config(packaged(tmp_path, "pair"))
    assert (found.name, found.platform, found.backend) == ("pair", "onnxruntime_onnx", "onnxruntime")
    assert found.max_batch_size == 64
    assert found.HasField("dynamic_batching")
    assert [(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in (*found.input, *found.output)] == [
        ("a", 11, [2]), ("b", 9, [2]), ("sum", 11, [2]), ("twice", 9, [2]),
    ]  # fmt: skip
    assert found.instance_group[0].kind == found.instance_group[0].KIND_CPU
    assert found.version_policy.latest.num_versions == 1
    assert found.default_model_filename == "model.onnx"


@pytest.mark.heavy
@pytest.mark.parametrize("name", serving.TEXTS)
def test_tritons_schema_reads_the_configuration_of_every_kind_of_model(tmp_path: Path, name: str) -> None:
    found = config(packaged(tmp_path, name))
    assert all(tensor.data_type and tensor.dims for tensor in (*found.input, *found.output))


@pytest.mark.heavy
def test_tritons_schema_reads_a_scalar(tmp_path: Path) -> None:
    text = serving.HEAD + "(float[n,2] x, float s) => (float[n,2] y) { y = Mul(x, s) }"
    sardonyx.package(Model.from_text(text), tmp_path / "out", target="triton")
    found = config(tmp_path / "out")
    assert found.max_batch_size == 0
    assert list(found.input[0].dims) == [-1, 2]
    assert (list(found.input[1].dims), list(found.input[1].reshape.shape)) == ([1], [])
    assert found.input[1].HasField("reshape")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mixing", "changes with the requests beside it"),
        ("fixed", "no dynamic first dimension in all of its inputs and outputs"),
        ("flags", "no dimension besides the batch"),
    ],
)
def test_requests_are_batched_only_where_rows_keep_apart(tmp_path: Path, name: str, reason: str) -> None:
    report = sardonyx.package(serving.save(name, tmp_path / "m.onnx"), tmp_path / "out", target="triton")
    (finding,) = report["findings"]
    assert finding["code"] == "triton-not-batched"
    assert reason in finding["message"]
    text = (tmp_path / "out" / "m" / "config.pbtxt").read_text()
    assert "max_batch_size: 0" in text
    assert "dynamic_batching" not in text


def test_two_names_for_the_batch_are_not_one_batch(tmp_path: Path) -> None:
    text = serving.HEAD + "(float[n,2] a, float[m,2] b) => (float[n,2] c, float[m,2] d) { c = Relu(a) d = Relu(b) }"
    report = sardonyx.package(Model.from_text(text), tmp_path / "out", target="triton")
    assert [finding["code"] for finding in report["findings"]] == ["triton-not-batched"]


def test_an_output_with_rows_of_its_own_is_not_dealt_out(tmp_path: Path) -> None:
    text = serving.HEAD + "(float[n,2] x) => (float[m,2] y) { y = Concat<axis = 0>(x, x) }"
    report = sardonyx.package(Model.from_text(text), tmp_path / "out", target="triton")
    assert report["findings"][0]["code"] == "triton-not-batched"


def test_rows_without_a_common_name_are_batched_once_a_run_has_shown_them_to_be_the_same(tmp_path: Path) -> None:
    text = serving.HEAD + "(float[n,2] x) => (float[m,2] y) { y = Relu(x) }"
    report = sardonyx.package(Model.from_text(text), tmp_path / "out", target="triton")
    assert report["findings"] == []
    assert "max_batch_size: 64" in (tmp_path / "out" / "model" / "config.pbtxt").read_text()


def test_the_most_rows_can_be_chosen(tmp_path: Path) -> None:
    assert "max_batch_size: 8" in (packaged(tmp_path, "tiny", max_batch=8) / "tiny" / "config.pbtxt").read_text()


def test_our_server_answers_from_the_repository_as_the_model_does(tmp_path: Path) -> None:
    folder = packaged(tmp_path, "tiny")
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    with serving.running(folder) as running, Client(f"http://{running.http}") as client:
        assert client.metadata("tiny")["versions"] == ["1"]
        np.testing.assert_array_equal(
            client.infer("tiny", {"x": x})["y"], Session(tmp_path / "tiny.onnx")({"x": x})["y"]
        )


@pytest.mark.heavy
def test_a_real_model_is_packaged_and_read_by_tritons_schema(tmp_path: Path) -> None:
    path = real.path("magika/models/standard_v3_3/model.onnx")
    sardonyx.package(path, tmp_path / "out", target="triton", name="magika")
    found = config(tmp_path / "out")
    signature = Model.load(path).signature
    assert [tensor.name for tensor in found.input] == signature.input_names
    assert found.max_batch_size == 64


FAULTS = {
    "another type": ("TYPE_FP32", "TYPE_FP16"),
    "another size": ("dims: [4]", "dims: [5]"),
    "another name": ('"x"', '"z"'),
    "no input": ("input {", "inputs {"),
    "a bracket": ("dynamic_batching { }", "dynamic_batching {"),
    "no text": ("name", "@"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_in_the_configuration_is_caught(tmp_path: Path, fault: str) -> None:
    folder = packaged(tmp_path, "tiny")
    path = folder / "tiny" / "config.pbtxt"
    assert triton.check(folder) == []
    path.write_text(path.read_text().replace(*FAULTS[fault], 1))
    found = triton.check(folder)
    assert found
    assert all(finding.severity == "error" and finding.code == "triton-config" for finding in found)


def test_a_repository_without_its_model_is_caught(tmp_path: Path) -> None:
    folder = packaged(tmp_path, "tiny")
    (folder / "tiny" / "1" / "model.onnx").unlink()
    assert "no 1/model.onnx" in triton.check(folder)[0].message


def test_protobuf_text_is_read_as_it_was_written() -> None:
    message = {"a": 'x "y"', "b": [1, -2], "c": [{"d": Word("E")}, {"d": Word("F")}], "g": {}, "h": []}
    assert prototext.loads("# said\n" + prototext.dumps(message)) == {
        "a": ['x "y"'], "b": [1, -2], "c": [{"d": ["E"]}, {"d": ["F"]}], "g": [{}], "h": [],
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a:", "a {", "{}", "a: 1 }", '"a": 1', "a: [1", "a: ~"])
def test_what_is_no_protobuf_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        prototext.loads(text)


@pytest.mark.parametrize(("level", "number"), [("none", 2), ("basic", -1), ("extended", 1)])
def test_the_level_that_a_model_says_is_in_the_configuration(tmp_path: Path, level: str, number: int) -> None:
    model = Model.from_text(serving.HEAD + serving.TEXTS["tiny"])
    store_level(model, level)
    assert sardonyx.package(model, tmp_path / "out", target="triton").ok
    found = prototext.loads((tmp_path / "out" / "model" / "config.pbtxt").read_text())
    assert found["optimization"] == [{"graph": [{"level": [number]}]}]
