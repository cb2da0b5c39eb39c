from __future__ import annotations

import json
from typing import Any

import pytest

from sardonyx.model import Model
from sardonyx.view.graph import describe

NET = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[batch,4] x) => (float[batch,2] y)
<float[4,2] w = {1,2,3,4,5,6,7,8}> {
  [ "/head/MatMul" ] h = MatMul(x, w)
  one = Constant <value = float {1.5}> ()
  [ "/head/Add" ] a = Add(h, one)
  [ "/act/LeakyRelu" ] y = LeakyRelu <alpha = 0.25> (a)
}
"""
BRANCH = """
<ir_version: 10, opset_import: ["" : 18]>
net (bool c, float[3] x) => (float[3] y) {
  [ "choice" ] y = If (c) <
    then_branch = yes () => (float[3] t) { [ "/inner/Neg" ] t = Neg(x) },
    else_branch = no () => (float[3] e) { [ "/inner/Abs" ] e = Abs(x) }
  >
}
"""
FUNCTION = """
<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
net (float[3] x) => (float[3] y) { y = own.Twice(x) }
<domain: "own", opset_import: ["" : 18]>
Twice (a) => (b) { c = Neg(a)  b = Neg(c) }
"""


def described(text: str, **options: Any) -> dict[str, Any]:
    return describe(Model.from_text(text), **options)


def test_nodes_name_their_values_and_weights_by_number() -> None:
    found = described(NET)
    matmul, constant, add, _ = found["nodes"]
    value, weight = matmul["inputs"]
    assert found["values"][value] == {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
    assert found["weights"][-1 - weight]["name"] == "w"
    assert found["weights"][-1 - weight]["statistics"]["mean"] == 4.5
    assert constant["constant"] is True
    assert found["weights"][-1 - add["inputs"][1]]["values"] == 1.5
    assert [found["values"][number]["name"] for number in (*found["inputs"], *found["outputs"])] == ["x", "y"]


def test_shapes_are_inferred_attributes_shown_and_scopes_told() -> None:
    found = described(NET)
    shapes = {value["name"]: value["shape"] for value in found["values"]}
    assert shapes["h"][1] == 2
    leaky = found["nodes"][-1]
    assert leaky["attributes"] == {"alpha": "0.25"}
    assert [found["scopes"][node["scope"]] for node in found["nodes"] if "constant" not in node] == [
        ["head"],
        ["head"],
        ["act"],
    ]
    assert found["model"]["parameters"] == 8


def test_the_bodies_of_a_node_are_scopes_and_feed_the_node() -> None:
    found = described(BRANCH)
    by_name = {node["name"]: node for node in found["nodes"]}
    assert found["scopes"][by_name["/inner/Neg"]["scope"]] == ["choice: then_branch"]
    assert found["scopes"][by_name["/inner/Abs"]["scope"]] == ["choice: else_branch"]
    assert [found["values"][number]["name"] for number in by_name["choice"]["results"]] == ["t", "e"]
    assert "attributes" not in by_name["choice"]


def test_functions_are_written_out() -> None:
    assert [node["op"] for node in described(FUNCTION)["nodes"]] == ["Neg", "Neg"]


def test_the_description_is_strict_json_with_any_name() -> None:
    model = Model.from_text(NET)
    name = "</script>\u2028\ud800"
    model.ir.graph[0].name = name
    text = json.dumps(describe(model), allow_nan=False)
    assert json.loads(text)["nodes"][0]["name"] == name


def test_the_precision_is_there_unless_other_overlays_are_named() -> None:
    assert [overlay["name"] for overlay in described(NET)["overlays"]] == ["precision"]
    assert described(NET, overlays=())["overlays"] == []


@pytest.mark.parametrize("size", [1, 7])
def test_sizes_may_be_given(size: int) -> None:
    text = NET.replace("float[batch,2] y", "float[n,2] y")
    assert described(text, sizes={"batch": size})["nodes"]
