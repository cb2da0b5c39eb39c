"""ship: every stage, a folder that stands or falls as one, and a report that holds what was found."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import sardonyx
from bundling import QUICK, SKIP, network
from sardonyx.errors import OutputError, UsageError
from sardonyx.files import sha256

pytestmark = pytest.mark.heavy
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).relu()

class Branch(Net):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)
"""
SPEC = "x=float32[batch,4]"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ship")
    (folder / "net.py").write_text(NET)
    rows = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    np.savez(folder / "data.npz", x=rows, label=np.arange(64) % 3)
    report = sardonyx.ship(
        f"{folder}/net.py:Net",
        folder / "bundle",
        data=folder / "data.npz",
        inputs=[SPEC],
        route="trace",
        settings=QUICK,
    )
    return folder / "bundle", report


@pytest.mark.rest
def test_every_stage_has_run_and_is_named(shipped):
    _, report = shipped
    assert report.verdict == "shipped"
    stages = ["convert", "check", "compare", "optimize", "quantize", "bench", "golden"]
    assert [stage["stage"] for stage in report["stages"]] == stages
    assert [row["of"] for row in report["stages"][5]["ratios"]] == ["framework"] * len(report["stages"][5]["ratios"])
    assert set(report["metrics"]["speed"]) >= {"ratio", "low", "high", "verdict"}
    assert "times as fast" in report.summary


def test_the_numbers_of_the_stages_agree_with_each_other(shipped):
    folder, report = shipped
    stages = {stage["stage"]: stage for stage in json.loads((folder / "report.json").read_text())["stages"]}
    for output in stages["compare"]["outputs"]:
        assert output["error"] <= output["tolerance"]
        assert output["used"] == pytest.approx(output["error"] / output["tolerance"] if output["tolerance"] else 0.0)
    for candidate in stages["optimize"]["candidates"]:
        if candidate["verdict"] in ("winner", "not-chosen") and candidate["max_error"] is not None:
            assert candidate["max_error"] <= candidate["tolerance"]
    rows = {row["name"]: row for row in stages["bench"]["variants"]}
    for ratio in stages["bench"]["ratios"]:
        assert ratio["p50_ratio"] == pytest.approx(rows[ratio["of"]]["p50"] / rows[ratio["to"]]["p50"])
    speed = report["metrics"]["speed"]
    assert speed in stages["bench"]["ratios"]
    assert f"{speed['ratio']:.2f} times as fast" in report.summary
    page = (folder / "report.html").read_text()
    assert "Ratios are of undisturbed calls of the same rounds" in page


def test_what_stages_say_about_their_measuring_is_said_by_ship(shipped):
    _, report = shipped
    told = {
        (stage["stage"], finding["code"])
        for stage in report["stages"]
        for finding in stage.get("findings") or ()
        if finding["code"] in ("busy-machine", "out-of-time")
    }
    assert ("optimize", "out-of-time") in told  # a tenth of a second is too little for anything
    assert {(f.where, f.code) for f in report.findings if f.code in ("busy-machine", "out-of-time")} == told


def test_the_bundle_verifies(shipped):
    bundle, report = shipped
    assert sardonyx.verify(bundle, digest=report["digest"]).verdict == "verified"


def test_the_report_holds_the_ledger_the_graph_and_the_provenance(shipped):
    bundle, _ = shipped
    report = json.loads((bundle / "report.json").read_text())
    assert report["ledger"]["stages"][0] == "float"
    assert {row["op_type"] for row in report["ledger"]["nodes"]} >= {"Relu"}
    assert "framework" in report["ledger"]["outputs"][0]["error"]
    assert {node["op"] for node in report["graph"]["nodes"]} >= {"Relu"}
    assert [stage["stage"] for stage in report["provenance"]] == [stage["stage"] for stage in report["stages"]]
    assert report["provenance"][0]["versions"]["torch"]
    assert report["runs_on"]
    assert all({"summary", "tables", "verdict"} <= set(stage) for stage in report["stages"])
    assert "<!doctype html>" in (bundle / "report.html").read_text().lower()


def test_the_record_holds_the_hash_of_every_file(shipped):
    bundle, _ = shipped
    record = json.loads((bundle / "bundle.json").read_text())
    assert record["files"] == {path.name: sha256(path) for path in bundle.iterdir() if path.name != "bundle.json"}
    assert record["signature"]["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]


def test_the_golden_cases_replay(shipped):
    bundle, _ = shipped
    golden = load_file(bundle / "golden.safetensors")
    for case in range(2):
        outputs = sardonyx.run(bundle / "model.onnx", {"x": golden[f"{case}/input/x"]}).artifacts["outputs"]
        for name, array in outputs.items():
            np.testing.assert_array_equal(array, golden[f"{case}/output/{name}"])


def test_no_path_of_the_work_folder_is_left_in_the_reports(shipped):
    bundle, report = shipped
    assert "unfinished" not in report.to_json()
    assert "unfinished" not in (bundle / "report.json").read_text() + (bundle / "report.html").read_text()


@pytest.mark.rest
def test_shipping_again_replaces_the_bundle_and_without_data_nothing_is_quantised(shipped):
    bundle, _ = shipped
    again = sardonyx.ship(
        f"{bundle.parent}/net.py:Net", bundle, inputs=[SPEC], route="trace", settings=QUICK, skip=["optimize"]
    )
    assert again.ok
    assert "convert" not in again["resumed"], "it searches with the data"
    assert "check" in again["resumed"]
    quantized = again["stages"][4]
    assert (quantized["verdict"], "no data" in quantized["reason"]) == ("skipped", True)
    assert sorted(path.name for path in bundle.parent.iterdir() if not path.name.startswith("__")) == [
        "bundle",
        "data.npz",
        "net.py",
    ]


@pytest.mark.rest
def test_a_live_model_is_shipped(tmp_path):
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    report = sardonyx.ship(module, tmp_path / "bundle", inputs=[SPEC], route="trace", settings=QUICK, skip=SKIP)
    assert report.verdict == "shipped"
    assert report["source"] == "Sequential"
    assert sardonyx.verify(tmp_path / "bundle").ok


@pytest.mark.rest
def test_weights_beside_the_model_are_shipped_and_hashed(tmp_path):
    network().save(tmp_path / "net.onnx", external_data=True)
    model = sardonyx.Model.load(tmp_path / "net.onnx")
    assert model.keeps_data_outside
    report = sardonyx.ship(tmp_path / "net.onnx", tmp_path / "bundle", settings=QUICK, skip=SKIP)
    assert report.ok
    files = json.loads((tmp_path / "bundle" / "bundle.json").read_text())["files"]
    assert {"float.onnx.data", "model.onnx.data"} <= set(files)
    assert sardonyx.verify(tmp_path / "bundle").verdict == "verified"
    data = tmp_path / "bundle" / "model.onnx.data"
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    report = sardonyx.verify(tmp_path / "bundle")
    assert (report.verdict, "model.onnx.data" in report.summary) == ("tampered", True)


def test_a_wrong_keyword_is_named_before_anything_is_done(tmp_path):
    with pytest.raises(UsageError, match="no stage 'quantise'"):
        sardonyx.ship("net.py:Net", tmp_path / "bundle", settings={"quantise": {}})
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_no_bundle_is_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    (tmp_path / "net.py").write_text(NET)
    with pytest.raises(OutputError, match="thesis"):
        sardonyx.ship(f"{tmp_path}/net.py:Net", tmp_path / "thesis", inputs=[SPEC], route="trace")
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"


@pytest.mark.rest
def test_a_stage_that_ends_badly_leaves_no_bundle(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    report = sardonyx.ship(f"{tmp_path}/net.py:Branch", tmp_path / "bundle", inputs=[SPEC], route="trace")
    assert (report.verdict, report.ok) == ("not-shipped", False)
    assert "no-route-agrees" in report.summary
    assert not (tmp_path / "bundle").exists()


@pytest.mark.rest
def test_a_table_goes_through_every_stage_and_its_labels_may_have_any_name(tmp_path):
    network().save(tmp_path / "net.onnx")
    rows = np.random.default_rng(0).normal(size=(64, 8))
    lines = [",".join(map(repr, row.tolist())) + f",{index % 4}" for index, row in enumerate(rows)]
    (tmp_path / "rows.csv").write_text("\n".join([",".join("abcdefgh") + ",target", *lines]))
    settings = QUICK | {"quantize": {"time": 60}}  # in one second a busy machine comes to no metric
    call = {"data": tmp_path / "rows.csv", "label": "target", "settings": settings, "skip": ["optimize"]}
    report = sardonyx.ship(tmp_path / "net.onnx", tmp_path / "bundle", **call)
    assert report.ok
    stages = {stage["stage"]: stage for stage in report["stages"]}
    assert stages["quantize"]["metric"]["name"] == "accuracy"
    assert all("accuracy" in row for row in stages["bench"]["variants"])
    again = sardonyx.ship(tmp_path / "net.onnx", tmp_path / "bundle", **call)
    assert set(again["resumed"]) >= {"compare", "quantize"}
    with pytest.raises(UsageError, match="there is no data"):
        sardonyx.ship(tmp_path / "net.onnx", tmp_path / "bundle", label="target")
