"""A first ship: every stage, a folder that stands or falls as one, and a page that opens."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import sardonyx
from sardonyx.errors import OutputError
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
    np.savez(folder / "data.npz", x=np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    report = sardonyx.ship(
        f"{folder}/net.py:Net", folder / "bundle", data=folder / "data.npz", inputs=[SPEC], route="trace"
    )
    return folder / "bundle", report


def test_every_stage_has_run_and_is_named(shipped):
    _, report = shipped
    assert report.verdict == "shipped"
    assert [stage["stage"] for stage in report["stages"]] == ["convert", "check", "compare", "run"]


def test_the_record_holds_the_hash_of_every_file(shipped):
    bundle, _ = shipped
    record = json.loads((bundle / "bundle.json").read_text())
    assert record["files"] == {path.name: sha256(path) for path in bundle.iterdir() if path.name != "bundle.json"}
    assert record["signature"]["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]


def test_the_golden_cases_replay(shipped):
    bundle, _ = shipped
    golden = load_file(bundle / "golden.safetensors")
    for case in range(4):
        outputs = sardonyx.run(bundle / "model.onnx", {"x": golden[f"{case}/input/x"]}).artifacts["outputs"]
        for name, array in outputs.items():
            np.testing.assert_array_equal(array, golden[f"{case}/output/{name}"])


def test_no_path_of_the_scratch_folder_is_left_in_the_reports(shipped):
    bundle, report = shipped
    assert ".part" not in report.to_json()
    assert ".part" not in (bundle / "report.json").read_text() + (bundle / "report.html").read_text()


def test_shipping_again_replaces_the_bundle(shipped):
    bundle, _ = shipped
    again = sardonyx.ship(f"{bundle.parent}/net.py:Net", bundle, inputs=[SPEC], route="trace")
    assert again.ok
    assert sorted(path.name for path in bundle.parent.iterdir() if not path.name.startswith("__")) == [
        "bundle",
        "data.npz",
        "net.py",
    ]


def test_a_folder_that_is_no_bundle_is_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    (tmp_path / "net.py").write_text(NET)
    with pytest.raises(OutputError, match="thesis"):
        sardonyx.ship(f"{tmp_path}/net.py:Net", tmp_path / "thesis", inputs=[SPEC], route="trace")
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"


def test_a_stage_that_ends_badly_leaves_no_bundle(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    report = sardonyx.ship(f"{tmp_path}/net.py:Branch", tmp_path / "bundle", inputs=[SPEC], route="trace")
    assert (report.verdict, report.ok) == ("not-shipped", False)
    assert "no-route-agrees" in report.summary
    assert not (tmp_path / "bundle").exists()
