"""References that are not ONNX: a model in its own framework against an ONNX model."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

import sardonyx

pytestmark = pytest.mark.heavy

NET = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = torch.nn.functional.gelu(x)
        x = x.mean((2, 3))
        return self.head(x).softmax(-1)


def make():
    torch.manual_seed(0)
    net = Net()
    net.norm.running_mean += 0.1
    return net.eval()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A module in a file, and an export of it by the old route, whose names and operators are not those of the new."""
    place = tmp_path_factory.mktemp("net")
    (place / "factory_net.py").write_text(NET)
    sys.path.insert(0, str(place))
    try:
        import factory_net
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                factory_net.make(), (torch.randn(2, 3, 16, 16),), place / "net.onnx", dynamo=False, opset_version=17,
                input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}},
            )  # fmt: skip
    finally:
        sys.path.remove(str(place))
    return place


def data() -> dict:
    return {"x": np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)}


def edited(folder: Path, name: str, change) -> Path:
    proto = onnx.load(folder / "net.onnx")
    change(proto)
    onnx.save(proto, folder / name)
    return folder / name


def bias_off(proto: onnx.ModelProto) -> None:
    item = next(item for item in proto.graph.initializer if item.name == "head.bias")
    item.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(item) + np.float32([0.01, 0, 0, 0, 0]), item.name)
    )


def another_gelu(proto: onnx.ModelProto) -> None:
    next(node for node in proto.graph.node if node.op_type == "Erf").op_type = "Tanh"


def test_an_honest_export_is_rounding(folder):
    report = sardonyx.compare(f"{folder}/factory_net.py:make", folder / "net.onnx", data=data())
    assert report.verdict in ("rounding", "equal")


@pytest.mark.rest
@pytest.mark.parametrize(
    ("change", "node", "line"),
    [(bias_off, "/head/Gemm", "return self.head(x)"), (another_gelu, "/Erf", "torch.nn.functional.gelu(x)")],
)
def test_a_fault_is_located_with_the_line_of_the_users_code(folder, change, node, line):
    report = sardonyx.compare(f"{folder}/factory_net.py:make", edited(folder, "wrong.onnx", change), data=data())
    assert report.verdict == "mismatch"
    found = report["first_divergence"]
    assert found["node"] == node
    assert found["source"].startswith(f"{folder}/factory_net.py:")
    assert line in found["source"]
    assert any("dynamo export" in finding.message for finding in report.findings or ())


def test_an_estimator_is_compared_with_its_export():
    from skl2onnx import to_onnx
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    rows, labels = load_iris(return_X_y=True)
    rows = rows.astype(np.float32)
    estimator = LogisticRegression(max_iter=500).fit(rows, labels)
    proto = to_onnx(estimator, rows[:1], options={"zipmap": False}, target_opset=17)
    [spec] = proto.graph.input
    report = sardonyx.compare(estimator, proto, data={spec.name: rows})
    assert report.ok, report.to_text()
    scores = next(node for node in proto.graph.node if node.op_type == "LinearClassifier")
    next(item for item in scores.attribute if item.name == "coefficients").floats[0] += 0.05
    report = sardonyx.compare(estimator, proto, data={spec.name: rows})
    assert report.verdict == "mismatch"
    assert report["first_divergence"]["op_type"] == "LinearClassifier"
