"""Per-node time is tied to the names of the model's own graph, through whatever the runtime fused."""

from __future__ import annotations

from pathlib import Path

import pytest

import sardonyx
from sardonyx.bench.origins import name_nodes, origins
from sardonyx.model import Model

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
CONV = (
    f"{HEAD} g (float[1,4,16,16] x) => (float[1,4,16,16] y) {{ "
    "s = Constant<value = int64[4] {4, 4, 3, 3}>() w = ConstantOfShape<value = float[1] {0.1}>(s) "
    "[first] c = Conv<pads = [1, 1, 1, 1]>(x, w) [rest] r = Relu(c) e = Sigmoid(r) y = Mul(e, e) }"
)


def test_a_profile_names_nodes_operators_and_shares(tmp_path: Path) -> None:
    path = Model.from_text(CONV).save(tmp_path / "conv.onnx")
    report = sardonyx.bench(path, seconds=0.05, cold=False, threads=1, profile=True)
    (profile,) = report["profile"]
    nodes = profile["nodes"]
    assert sum(node["share"] for node in nodes) == pytest.approx(1)
    assert [node["seconds"] for node in nodes] == sorted((node["seconds"] for node in nodes), reverse=True)
    fused = next(node for node in nodes if "Conv" in node["op_type"])
    assert fused["from"][:2] == ["first", "rest"]
    assert any("Sigmoid(e)" in node["from"] for node in nodes)
    assert sum(row["count"] for row in profile["operators"]) == len(nodes)
    text = report.to_text()
    assert "first + rest" in text
    assert "operators of conv.onnx" in text


def test_every_node_gets_a_name_of_its_own() -> None:
    model = Model.from_text(f"{HEAD} g (float[2] x) => (float[2] z) {{ [a] y = Abs(x) [a] w = Neg(y) z = Abs(w) }}").ir
    name_nodes(model)
    assert [node.name for node in model.graph] == ["a", "a#2", "Abs(z)"]


def test_a_fused_node_stands_for_what_lies_between_its_tensors() -> None:
    before = Model.from_text(
        f"{HEAD} g (float[2] x) => (float[2] z) {{ [a] y = Abs(x) [b] w = Neg(y) [c] z = Exp(w) }}"
    ).ir
    after = Model.from_text(f"{HEAD} g (float[2] x) => (float[2] z) {{ [f] w = Neg(x) [c] z = Exp(w) }}").ir
    assert origins(before, after) == {"f": ("a", "b"), "c": ("c",)}


def test_what_the_runtime_added_stands_for_nothing() -> None:
    before = Model.from_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ [a] y = Abs(x) }}").ir
    after = Model.from_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ [new] t = Neg(x) [a] y = Abs(t) }}").ir
    assert origins(before, after)["new"] == ()
    assert origins(before, after)["a"] == ("a",)


def test_nodes_of_nested_graphs_keep_their_names() -> None:
    text = (
        f"{HEAD} g (bool b, float[2] x) => (float[2] y) {{ "
        "[choose] y = If(b)<then_branch = t () => (float[2] u) { [inner] u = Abs(x) }, "
        "else_branch = e () => (float[2] v) { [other] v = Neg(x) }> }"
    )
    model = Model.from_text(text).ir
    assert origins(model, model)["inner"] == ("inner",)


def test_a_framework_alone_cannot_be_profiled() -> None:
    sklearn = pytest.importorskip("sklearn.dummy")
    estimator = sklearn.DummyRegressor().fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(sardonyx.SardonyxError, match="no onnxruntime variant"):
        sardonyx.bench(estimator, profile=True, seconds=0.05)
