"""ONNX as a source: told by its bytes, run as it is, and brought to a newer opset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx.errors import SourceFailed
from sardonyx.model import Model
from sardonyx.sources import Exported, Failure, Original, Outputs, recognise
from sardonyx.sources._recognise import Subject
from sardonyx.sources.onnx import accepts

X = np.array([[1.0, -2.0, 3.0]], np.float32)
# Its ReduceSum keeps the axes in an attribute, which opset 13 made an input.
OLD = """<ir_version: 7, opset_import: ["" : 11]>
g (float[batch,3] X) => (float[batch,1] Y) { Y = ReduceSum <axes = [1]> (X) }"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.onnx"
    onnx.save(onnx.parser.parse_model(OLD), path)
    return path


def export(original: Original, route: str, out: Path, opset: int = 18) -> Exported:
    return original.export(
        route, out, example={"X": X}, dynamic={}, opset=opset, input_names=[], output_names=[], training=False
    )


def test_a_model_is_told_by_its_bytes(old: Path, tmp_path: Path) -> None:
    renamed = old.rename(tmp_path / "model.bin")
    assert accepts(Subject(path=renamed)) == "onnx"
    source = recognise(renamed)
    assert (source.plugin, source.form, source.routes()) == ("onnx", "onnx", ("as-is", "upgrade"))


@pytest.mark.parametrize(
    "head",
    [b"\x08\x01\x12\xe6\x95\x42\x0a", b"\x1c\x00\x00\x00TFL3", b"PK\x03\x04", b"\x80\x04\x95", b"\x08", b""],
    ids=["SavedModel", "TFLite", "zip", "pickle", "one byte", "empty"],
)
def test_other_files_are_not_taken_for_models(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(head)
    assert accepts(Subject(path=path)) is None


def test_the_name_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "odd.onnx"
    path.write_bytes(b"anything")
    assert accepts(Subject(path=path)) == "onnx"


@pytest.mark.heavy
def test_a_file_answers_and_is_exported_by_both_routes(old: Path, tmp_path: Path) -> None:
    with Original(recognise(old)) as original:
        said = original.describe()
        (answer,) = original.predict([{"X": X}])
        (exact,) = original.predict([{"X": X}], double=True)
        kept, newer = (export(original, route, tmp_path / f"{route}.onnx") for route in ("as-is", "upgrade"))
    assert said["inputs"] == [{"name": "X", "dtype": "float32", "shape": ["batch", 3]}]
    assert isinstance(answer, Outputs)
    np.testing.assert_array_equal(answer.arrays[0], [[2.0]])
    assert isinstance(exact, Failure)
    for exported, opset in ((kept, 11), (newer, 18)):
        assert exported.path is not None
        model = Model.load(exported.path)
        assert model.opset == opset
        with Original(recognise(exported.path)) as again:
            (same,) = again.predict([{"X": X}])
        assert isinstance(same, Outputs)
        np.testing.assert_array_equal(same.arrays[0], [[2.0]])


def test_a_proto_in_memory_is_a_source(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(OLD)
    with Original(recognise(proto)) as original:
        (answer,) = original.predict([{"X": X}])
        done = export(original, "as-is", tmp_path / "m.onnx")
    assert isinstance(answer, Outputs)
    np.testing.assert_array_equal(answer.arrays[0], [[2.0]])
    assert done.path is not None
    assert Model.load(done.path).opset == 11


def test_an_upgrade_to_an_older_opset_is_refused(tmp_path: Path) -> None:
    with Original(recognise(onnx.parser.parse_model(OLD))) as original:
        done = export(original, "upgrade", tmp_path / "m.onnx", opset=9)
    assert done.failure is not None
    assert "at opset 11 already" in done.failure.reason


def test_imports_that_are_repeated_are_written_once(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(OLD)
    proto.opset_import.append(onnx.helper.make_opsetid("", 11))
    with Original(recognise(proto)) as original:
        export(original, "as-is", tmp_path / "m.onnx")
    assert [(entry.domain, entry.version) for entry in onnx.load(tmp_path / "m.onnx").opset_import] == [("", 11)]


@pytest.mark.heavy
def test_a_model_that_does_not_load_says_why(tmp_path: Path) -> None:
    proto: Any = onnx.parser.parse_model(OLD)
    proto.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(proto, tmp_path / "bad.onnx")
    with pytest.raises(SourceFailed, match="NoSuchOperator") as refused, Original(recognise(tmp_path / "bad.onnx")):
        pass
    assert "sardonyx check" in refused.value.hint
