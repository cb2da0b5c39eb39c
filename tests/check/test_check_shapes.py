"""onnx's checker and its strict shape inference, and what they say that others say better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from checking import HEAD, REFUSED, codes, findings, subject
from sardonyx.check import _examine
from sardonyx.check._subject import plain
from sardonyx.external import tensors

GOOD = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"


def test_a_good_model_has_nothing_to_say() -> None:
    assert codes("checker", subject(GOOD)) == []
    assert codes("shapes", subject(GOOD)) == []


def test_a_broken_rule_is_told_in_the_words_of_onnx() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu<alpha = 1.0>(x) }}"
    (found,) = findings("checker", subject(text, load=REFUSED))
    assert (found.severity, found.code) == ("error", "onnx-invalid")
    assert "Unrecognized attribute: alpha" in found.message


def test_a_broken_rule_is_a_warning_where_the_model_loads() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu<alpha = 1.0>(x) }}"
    assert findings("checker", subject(text))[0].severity == "warning"


def test_shapes_that_contradict_are_named_with_the_node() -> None:
    text = f"{HEAD} g (float[2, 3] x, float[5, 4] w) => (float[2, 4] y) {{ [mm] y = MatMul(x, w) }}"
    (found,) = findings("shapes", subject(text, load=REFUSED))
    assert (found.severity, found.code) == ("error", "shape-inference")
    assert "MatMul" in found.where
    assert "Incompatible dimensions" in found.message


def test_a_declared_shape_that_is_wrong_is_a_warning_where_the_model_loads() -> None:
    (found,) = findings("shapes", subject(f"{HEAD} g (float[2, 3] x) => (float[2, 7] y) {{ y = Relu(x) }}"))
    assert found.severity == "warning"
    assert "(3) vs (7)" in found.message


def test_a_fault_with_a_check_of_its_own_is_not_told_twice() -> None:
    cyclic = f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Add(x, b) b = Relu(a) y = Abs(b) }}"
    unknown = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Rellu(x) }}"
    for text in (cyclic, unknown):
        assert codes("checker", subject(text, load=REFUSED)) == []
        assert codes("shapes", subject(text, load=REFUSED)) == []


def test_large_tensors_are_left_out_and_small_ones_still_decide_shapes() -> None:
    body = "<int64[3] s = {-1, 16, 32}> { z = MatMul(x, w) y = Reshape(z, s) }"
    model = parser.parse_model(f"{HEAD} g (float[n, 256] x) => (float[a, b, c] y) {body}")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((256, 512), np.float32), "w"))
    _examine.strip(model, None)
    assert model.ByteSize() < 1000
    assert inferred_output(model)[1:] == [16, 32]


def test_small_external_tensors_are_read_so_that_shapes_infer(tmp_path: Path) -> None:
    model = parser.parse_model(f"{HEAD} g (float[4] x) => (float[a, b] y) {{ y = Reshape(x, s) }}")
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 2]), "s"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    outside = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert [tensor.data_location for tensor in tensors(outside)] == [TensorProto.EXTERNAL]
    _examine.strip(outside, tmp_path)
    assert inferred_output(outside) == [2, 2]


def inferred_output(model: onnx.ModelProto) -> list[int]:
    """The shape that strict inference gives the output, 0 for a dynamic dimension."""
    inferred, message = _examine.infer(model)
    assert message is None
    return [dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim]


def test_messages_lose_their_codes_and_places_in_the_source() -> None:
    raw = (
        "[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/a b.onnx failed:/onnxruntime_src/core/graph/model.cc:340 "
        "onnxruntime::Model::Model(onnx::ModelProto&&, const std::function<void (int)>&) const [with T = int] "
        "[ONNXRuntimeError] : 10 : INVALID_GRAPH : the graph\n is not acyclic."
    )
    assert plain(raw) == "the graph is not acyclic."
    place = (
        "/onnxruntime_src/core/x.cc:24 onnxruntime::X::X(const OpKernelInfo&) layout_ == 0 was false. Not supported."
    )
    assert plain(f"Exception: {place}") == "Exception: layout_ == 0 was false. Not supported."
    assert plain("nothing special (at all)") == "nothing special (at all)"
    assert plain("/onnxruntime_src/x.cc:1 no signature here") == "no signature here"


def test_a_value_of_every_kind_has_a_type_name() -> None:
    from sardonyx.check._places import type_name

    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    kinds = {
        "tensor(float)": tensor,
        "seq(tensor(float))": helper.make_sequence_type_proto(tensor),
        "optional(tensor(float))": helper.make_optional_type_proto(tensor),
        "map(int64,tensor(float))": helper.make_map_type_proto(TensorProto.INT64, tensor),
        "sparse_tensor(double)": helper.make_sparse_tensor_type_proto(TensorProto.DOUBLE, None),
        None: onnx.TypeProto(),
    }
    assert {type_name(kind): kind for kind in kinds.values()} == kinds
