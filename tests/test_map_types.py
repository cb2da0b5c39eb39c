from pathlib import Path

import onnx
import pytest

from sardonyx.model import Model

CLASSIFIER = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (float[n,2] x) => (seq(map(int64, float)) y, float[n,2] z) {
    y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(x)  z = Identity(x) }"""


def test_a_map_is_named_in_the_signature() -> None:
    assert Model.from_text(CLASSIFIER).signature.outputs[0].dtype == "sequence(map(int64,float32))"


def test_the_proto_that_was_read_is_left_as_it_was() -> None:
    proto = onnx.parser.parse_model(CLASSIFIER)
    before = proto.SerializeToString()
    Model.from_proto(proto)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("external_data", [False, True])
def test_a_map_survives_saving_and_loading(tmp_path: Path, external_data: bool) -> None:
    model = Model.from_text(CLASSIFIER)
    path = model.save(tmp_path / "classifier.onnx", external_data=external_data)
    onnx.checker.check_model(path, full_check=True)
    written = onnx.load(path)
    assert written.graph.output[0].type == onnx.parser.parse_model(CLASSIFIER).graph.output[0].type
    assert Model.load(path).signature.outputs == model.signature.outputs
