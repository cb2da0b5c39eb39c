"""`inspect --graph`: the graph as text that reads like ONNX's own, and that stays small whatever the model holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import sardonyx
from sardonyx.inspect.graph_text import graph_text
from sardonyx.model import Model

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
SMALL = f"""{HEAD}
g (float[n,3] x) => (float[n,2] y)
<
   float[3,2] w = {{1, 2, 3, 4, 5, 6}}
>
{{
   [product] h = MatMul (x, w)
   y = Clip <> (h)
   s = Constant <value = int64[2] {{1, -1}}> ()
}}"""
BRANCH = (
    HEAD + " g (bool c, float[n] x) => (float[n] y) { y = If (c) <then_branch = a () => (float[n] p) { p = Neg (x) }, "
    "else_branch = b () => (float[n] q) { q = Abs (x) }> }"
)


def test_a_small_graph_is_onnx_text_that_can_be_read_again() -> None:
    text = graph_text(Model.from_text(SMALL.replace(" <>", "")))
    assert text == SMALL.replace(" <>", "")
    assert graph_text(Model.from_text(text)) == text


def test_the_report_shows_the_graph_instead_of_tables_and_has_it_in_json() -> None:
    report = sardonyx.inspect(Model.from_text(SMALL.replace(" <>", "")), graph=True)
    assert report["graph"].startswith("<ir_version: 10")
    assert "   [product] h = MatMul (x, w)\n" in report.to_text(width=20), "lines are not broken"
    assert "biggest tensors" not in report.to_text()
    assert "<pre>&lt;ir_version" in report.to_html()
    assert report["parameters"] == 6
    assert "graph" not in sardonyx.inspect(Model.from_text(SMALL.replace(" <>", ""))).to_dict()


def test_branches_are_written_inside_their_node() -> None:
    text = graph_text(Model.from_text(BRANCH))
    assert "   y = If (c) <\n" in text
    assert "      then_branch = a () => (float[n] p) {\n         p = Neg (x)\n      },\n" in text
    assert "      else_branch = b () => (float[n] q) {\n         q = Abs (x)\n      }\n   >\n}" in text


def test_functions_are_written_below_the_graph() -> None:
    text = """<ir_version: 10, opset_import: ["": 20, "own": 1]> g (float[n] x) => (float[n] y) { y = own.twice <by = 2> (x) }
    <domain: "own", opset_import: ["": 20]> twice <by> (a) => (b) { b = LeakyRelu <alpha: float = @by> (a) }"""
    shown = graph_text(Model.from_text(text))
    assert "y = own.twice <by = 2> (x)" in shown
    assert "twice (a) => (b) {\n   b = LeakyRelu <alpha = @by> (a)\n}" in shown


def test_of_large_constants_the_first_values_are_shown(tmp_path: Path) -> None:
    model = Model.from_text(f"{HEAD} g (float[n,4000] x) => (float[n,4000] y) {{ y = Mul (x, w) }}")
    weight = ir.tensor(np.arange(4000, dtype=np.float32), name="w")
    value = next(iter(model.ir.graph)).inputs[1]
    assert value is not None
    value.const_value = weight
    model.ir.graph.register_initializer(value)
    assert "float[4000] w = {0, 1, 2, 3, 4, 5, … 4,000 in all}" in graph_text(model)
    outside = model.save(tmp_path / "m.onnx", external_data=True)
    assert "float[4000] w = {… in m.onnx.data}" in graph_text(Model.load(outside))


def test_long_lists_and_texts_of_attributes_are_cut() -> None:
    keys = ", ".join(f'"{"k" * 80}{index}"' for index in range(50))
    values = ", ".join(map(str, range(50)))
    text = (
        '<ir_version: 10, opset_import: ["": 20, "ai.onnx.ml": 4]> g (string[n] x) => (int64[n] y) '
        f"{{ y = ai.onnx.ml.LabelEncoder <keys_strings = [{keys}], values_int64s = [{values}]> (x) }}"
    )
    (line,) = [line for line in graph_text(Model.from_text(text)).splitlines() if "LabelEncoder" in line]
    assert len(line) <= 301
    assert "k" * 60 + "…" in line


def test_a_graph_of_many_nodes_says_how_many_lines_are_left_out() -> None:
    body = " ".join(f"h{index + 1} = Neg (h{index})" for index in range(5000))
    text = graph_text(Model.from_text(f"{HEAD} g (float[n] h0) => (float[n] h5000) {{ {body} }}"))
    assert len(text.splitlines()) == 2001
    assert text.endswith("… and 3,003 more lines; sardonyx view shows the whole graph")


def test_names_cannot_steer_the_terminal() -> None:
    model = Model.from_text(SMALL.replace(" <>", ""))
    next(iter(model.ir.graph)).name = "\x1b[31mred\nline"
    text = graph_text(model)
    assert "\x1b" not in text
    assert "[\\x1b[31mred\\nline]" in text


@pytest.mark.parametrize("dtype", [ir.DataType.BFLOAT16, ir.DataType.INT4, ir.DataType.FLOAT8E4M3FN, ir.DataType.BOOL])
def test_constants_of_every_type_are_shown(dtype: ir.DataType) -> None:
    model = Model.from_text(SMALL.replace(" <>", ""))
    graph = model.ir.graph
    array = np.array([1, 0, 1]).astype(dtype.numpy())
    graph.register_initializer(ir.Value(name="k", const_value=ir.Tensor(array, dtype=dtype, name="k")))
    assert f"{dtype.name.lower()}[3] k = {{" in graph_text(model)
