"""The smallest fix is written, proven, and recorded; what cannot be fixed leaves no file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import hostile
import real
import sardonyx
from checking import HEAD, LOADED, REFUSED, subject
from sardonyx import runtime
from sardonyx.check._fix import plans
from sardonyx.check._mend import mend
from sardonyx.check._prove import prove
from sardonyx.errors import InputError, OutputError, SardonyxError
from sardonyx.model import Model

LIMITS = runtime.limits()


def stamped(ir: int, opset: int, body: str = "y = Relu(x)", kind: str = "float[2]") -> str:
    return f'<ir_version: {ir}, opset_import: ["": {opset}]> g ({kind} x) => ({kind} y) {{ {body} }}'


def mended(
    tmp_path: Path, model: str | onnx.ModelProto, *, opset: int | None = None, release: str | None = None
) -> tuple[Model, list[str]]:
    done = mend(hostile.written(tmp_path, model), tmp_path / "out.onnx", opset, release)
    return Model.load(tmp_path / "out.onnx"), done


def test_versions_are_stamped_down(tmp_path: Path) -> None:
    model, done = mended(tmp_path, stamped(LIMITS.ir_version + 1, LIMITS.opset + 1))
    assert (model.ir_version, model.opset) == (LIMITS.ir_version, LIMITS.opset)
    assert len(done) == 2
    assert model.history[-1].verb == "check"


def test_a_double_import_becomes_one(tmp_path: Path) -> None:
    made = parser.parse_model(stamped(8, 12))
    made.opset_import.add(domain="ai.onnx", version=13)
    model, done = mended(tmp_path, made)
    assert dict(model.ir.opset_imports) == {"": 13}
    assert done == ["one import of 'ai.onnx' instead of 2, 13"]


def test_an_opset_is_raised_by_a_stamp_where_nothing_changed(tmp_path: Path) -> None:
    model, done = mended(tmp_path, stamped(8, 17, "y = Gelu(x)"), opset=20)
    assert model.opset == 20
    assert "no operator changed" in done[0]


def test_an_opset_is_raised_by_conversion_where_something_changed(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 11]> g (float[2, 1] x) => (float[2] y) { y = Squeeze<axes = [1]>(x) }'
    model, done = mended(tmp_path, text, opset=18)
    assert model.opset == 18
    assert "converted" in done[0]
    assert len(next(node for node in model.ir.graph if node.op_type == "Squeeze").inputs) == 2


def test_what_no_converter_can_do_is_refused(tmp_path: Path) -> None:
    text = stamped(8, 17, "z = Gelu(x) y = ReduceMax<axes = [1]>(z)", "float[2, 3]")
    with pytest.raises(InputError, match="neither onnxscript nor onnx"):
        mended(tmp_path, text, opset=20)


def test_an_older_release_gets_its_own_stamps(tmp_path: Path) -> None:
    model, _ = mended(tmp_path, stamped(10, 21), release="1.17")
    assert (model.ir_version, model.opset) == (9, 20)


def test_weights_beside_the_model_move_with_it(tmp_path: Path) -> None:
    made = parser.parse_model(stamped(LIMITS.ir_version + 1, 17, "y = Add(x, w)"))
    weight = np.array([1.5, -2.5], np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    onnx.save(made, tmp_path / "in" / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    mend(tmp_path / "in" / "m.onnx", tmp_path / "out" / "m.onnx", None, None)
    value = Model.load(tmp_path / "out" / "m.onnx").ir.graph.initializers["w"].const_value
    assert value is not None
    assert (value.numpy() == weight).all()


def test_the_plan_for_a_model_that_loads_is_stamps_alone() -> None:
    assert list(plans(subject(stamped(8, 17), load=LOADED))) == [None]


def test_the_plans_go_from_small_to_large() -> None:
    assert list(plans(subject(stamped(8, 17, "y = Gelu(x)"), load=REFUSED))) == [None, 20, 18, 25]
    assert list(plans(subject(stamped(8, LIMITS.opset + 1), load=REFUSED)))[-1] == LIMITS.opset


def test_equal_models_are_proven_equal_and_others_are_not(tmp_path: Path) -> None:
    paths = {}
    for name, body in {"a": "y = Abs(x)", "b": "z = Neg(x) y = Max(x, z)", "c": "y = Relu(x)"}.items():
        (tmp_path / name).mkdir()
        paths[name] = str(hostile.written(tmp_path / name, stamped(8, 17, body)))
    assert prove(paths["a"], paths["b"])["equal"] is True
    different = prove(paths["a"], paths["c"])
    assert different["loads"]
    assert different["equal"] is False


@pytest.mark.parametrize(("factor", "equal"), [("1.000001", True), ("1.0005", False)])
def test_another_rounding_is_proven_equal_and_anything_more_is_not(tmp_path: Path, factor: str, equal: bool) -> None:
    paths = []
    for name, body in {"a": "y = Identity(x)", "b": f"k = Constant<value_float = {factor}>() y = Mul(x, k)"}.items():
        (tmp_path / name).mkdir()
        paths.append(str(hostile.written(tmp_path / name, stamped(8, 17, body))))
    assert prove(*paths)["equal"] is equal


def test_what_onnxruntime_optimises_wrongly_is_not_laid_at_the_door_of_the_mending(tmp_path: Path) -> None:
    """onnxruntime 1.31 turns the product into a fused one that reads a vector by the wrong dimension."""
    text = f"{HEAD} g (float[3,2] w, float[3] x) => (float[2] y) {{ t = Transpose<perm = [1, 0]>(w) y = MatMul(t, x) }}"
    (tmp_path / "b").mkdir()
    plain = hostile.written(tmp_path, text)
    other = hostile.written(tmp_path / "b", text.replace("y = MatMul(t, x)", "u = Identity(x) y = MatMul(t, u)"))
    assert prove(str(plain), str(other))["message"].endswith("(largest difference 0)")


def test_a_mended_model_that_does_not_load_proves_nothing(tmp_path: Path) -> None:
    answer = prove(None, str(hostile.unknown_operator(tmp_path)))
    assert not answer["loads"]


def test_outputs_that_cannot_be_compared_are_said_not_to_be(tmp_path: Path) -> None:
    text = f"{HEAD} g (float[2, n] x, float[2, n] z) => (float[2, n] y) {{ y = Gather<axis = 0>(x, i) }}"
    made = parser.parse_model(text.replace("{ y", "<int64[1] i = {5}> { y"))
    path = str(hostile.written(tmp_path, made))
    answer = prove(path, path)
    assert (answer["loads"], answer["equal"]) == (True, None)
    assert "not compared" in answer["message"]


@pytest.mark.rest
@pytest.mark.heavy
def test_a_model_too_new_is_fixed_and_the_report_is_on_the_copy(tmp_path: Path) -> None:
    path, out = hostile.written(tmp_path, stamped(LIMITS.ir_version + 1, 17)), tmp_path / "fixed.onnx"
    assert not sardonyx.check(path).ok
    report = sardonyx.check(path, fix=out)
    assert report.ok
    assert report["fixed"] == [f"IR version {LIMITS.ir_version + 1} -> {LIMITS.ir_version}"]
    assert report["fix"]["path"] == str(out)
    assert sardonyx.check(out).ok


@pytest.mark.rest
@pytest.mark.heavy
def test_imports_that_contradict_each_other_are_fixed_with_equal_outputs(tmp_path: Path) -> None:
    made = parser.parse_model(stamped(8, 12, "y = Softmax(x)", "float[2, 3, 4]"))
    made.opset_import.add(domain="", version=13)
    report = sardonyx.check(hostile.written(tmp_path, made), fix=tmp_path / "fixed.onnx")
    assert report.ok
    assert "equal outputs" in report["fix"]["reason"]


@pytest.mark.heavy
@pytest.mark.rest
def test_an_operator_without_a_kernel_is_fixed_by_a_newer_opset(tmp_path: Path) -> None:
    text = '<ir_version: 3, opset_import: ["": 1]> g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }'
    report = sardonyx.check(hostile.written(tmp_path, text), fix=tmp_path / "fixed.onnx")
    assert report.ok
    assert report["fixed"] == ["opset 1 -> 18: converted by onnxscript and onnx"]


@pytest.mark.heavy
@pytest.mark.rest
def test_what_cannot_be_fixed_leaves_no_file_and_says_what_was_tried(tmp_path: Path) -> None:
    out = tmp_path / "fixed.onnx"
    report = sardonyx.check(hostile.unknown_operator(tmp_path), fix=out)
    assert (report.ok, report["fixed"], report["fix"]["path"]) == (False, [], None)
    assert any("Rellu" in tried for tried in report["fix"]["tried"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


@pytest.mark.heavy
@pytest.mark.rest
def test_a_crash_while_proving_leaves_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "fixed.onnx"
    out.write_text("the old file")
    report = sardonyx.check(hostile.native_crash(tmp_path), fix=out)
    assert not report.ok
    assert out.read_text() == "the old file"


@pytest.mark.heavy
def test_unsafe_external_data_is_not_mended(tmp_path: Path) -> None:
    report = sardonyx.check(hostile.external_above(tmp_path), fix=tmp_path / "fixed.onnx")
    assert report["fixed"] == []
    assert "not safe" in report["fix"]["reason"]


@pytest.mark.rest
@pytest.mark.heavy
def test_a_model_with_nothing_to_fix_is_copied(tmp_path: Path) -> None:
    report = sardonyx.check(hostile.written(tmp_path, stamped(8, 17)), fix=tmp_path / "fixed.onnx")
    assert (report.ok, report["fixed"]) == (True, [])
    assert sardonyx.check(tmp_path / "fixed.onnx").ok


@pytest.mark.rest
@pytest.mark.heavy
def test_a_real_model_is_fixed_for_an_old_release(tmp_path: Path) -> None:
    path, out = real.path("silero_vad/data/silero_vad_op18_ifless.onnx"), tmp_path / "fixed.onnx"
    assert [f.code for f in sardonyx.check(path, ort="1.15").findings or () if f.severity == "error"] == ["ir-too-new"]
    report = sardonyx.check(path, ort="1.15", fix=out)
    assert report.ok
    assert report["fixed"] == ["IR version 10 -> 9"]
    assert [row["ok"] for row in report["runs_on"]] == [True, True]


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    from sardonyx.check._fix import mend as mend_to

    with pytest.raises(OutputError, match="does not exist"):
        mend_to(subject(stamped(8, 17)), tmp_path / "nowhere" / "out.onnx")
    assert issubclass(OutputError, SardonyxError)
