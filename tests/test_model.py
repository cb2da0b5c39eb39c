"""A model loads lazily, saves whole or not at all, and always fits the installed onnxruntime."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.errors import BrokenModel, InputError, NotAModel, NotFound, OutputError
from sardonyx.model import Model
from sardonyx.proto import read_proto
from sardonyx.signature import TensorSpec

RELU = '<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
SIZE = 1000


def adding(value: float, *, size: int = SIZE) -> Model:
    """y = x + w, where every number in w is `value`."""
    weight = numpy_helper.from_array(np.full(size, value, np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    return Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))


def added(path: Path) -> float:
    """What the model at `path` adds, as onnxruntime computes it."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    y = session.run(None, {"x": np.zeros(SIZE, np.float32)})[0]
    assert (y == y[0]).all()
    return float(y[0])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Loading


def test_external_data_is_left_on_disk_until_it_is_read(tmp_path: Path) -> None:
    adding(3).save(tmp_path / "m.onnx", external_data=True)
    tensor = Model.load(tmp_path / "m.onnx").ir.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert tensor.raw is None
    assert (tensor.numpy() == 3).all()
    assert tensor.raw is not None


def test_a_model_is_given_back_as_it_is() -> None:
    model = adding(1)
    assert Model.load(model) is model


def test_data_is_found_from_any_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adding(3).save(tmp_path / "m.onnx", external_data=True)
    monkeypatch.chdir(tmp_path)
    tensor = Model.load("m.onnx").ir.graph.initializers["w"].const_value
    assert tensor is not None
    assert (tensor.numpy() == 3).all()


def test_a_path_that_is_no_model_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind, words in (
        (tmp_path, NotAModel, "is a folder"),
        (tmp_path / "gone.onnx", NotFound, "does not exist"),
        (tmp_path / "pipe", NotAModel, "not a plain file"),
        (Path("/dev/zero"), NotAModel, "not a plain file"),
        (tmp_path / ("n" * 300), NotFound, "does not exist"),
    ):
        with pytest.raises(kind, match=words):
            read_proto(path)


def test_a_file_that_may_not_be_read_is_named() -> None:
    """Root may read everything, so the look is taken as nobody."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        adding(1).save(path)
        path.chmod(0)
        me = os.geteuid()
        try:
            if me == 0:
                Path(folder).chmod(0o755)
                os.seteuid(65534)
            with pytest.raises(InputError, match="permission denied"):
                Model.load(path)
        finally:
            os.seteuid(me)


def test_what_the_file_holds_and_we_do_not_is_refused_rather_than_lost() -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, np.int64), "i"), [3])
    with_sparse, with_training = adding(1).to_proto(), adding(1).to_proto()
    with_sparse.graph.sparse_initializer.append(sparse)
    with_training.training_info.add()
    for proto in (with_sparse, with_training):
        with pytest.raises(InputError, match="does not read"):
            Model.from_proto(proto)


def test_a_tensor_without_a_type_is_a_broken_model() -> None:
    proto = adding(1).to_proto()
    proto.graph.initializer[0].data_type = 0
    with pytest.raises(BrokenModel, match="tensor w has no type"):
        Model.from_proto(proto)


def test_the_signature_follows_the_graph() -> None:
    model = Model.from_text(RELU)
    assert model.signature.inputs == (TensorSpec("x", "float32", ("n",)),)
    model.ir.graph.inputs[0].name = "renamed"
    assert model.signature.inputs[0].name == "renamed"


# Saving


def test_a_small_model_is_one_file(tmp_path: Path) -> None:
    assert adding(2).save(tmp_path / "m.onnx") == tmp_path / "m.onnx"
    assert names(tmp_path) == ["m.onnx"]
    assert added(tmp_path / "m.onnx") == 2


def test_external_data_moves_with_the_model(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    adding(5).save(tmp_path / "old" / "a.onnx", external_data=True)
    Model.load(tmp_path / "old" / "a.onnx").save(tmp_path / "new" / "b.onnx")
    shutil.rmtree(tmp_path / "old")
    assert names(tmp_path / "new") == ["b.onnx", "b.onnx.data"]
    assert added(tmp_path / "new" / "b.onnx") == 5


@pytest.mark.parametrize("outside", [True, False])
def test_a_model_may_be_saved_over_itself_again_and_again(tmp_path: Path, outside: bool) -> None:
    path = tmp_path / "m.onnx"
    adding(1).save(path, external_data=outside)
    for value in (2, 3, 4):
        model = Model.load(path)
        tensor = ir.Tensor(np.full(SIZE, value, np.float32), name="w")
        model.ir.graph.initializers["w"].const_value = tensor
        model.save(path, external_data=outside)
        assert added(path) == value
        assert len(names(tmp_path)) == (2 if outside else 1)


def test_a_saved_model_can_be_changed_and_saved_on(tmp_path: Path) -> None:
    model = adding(1)
    for place in ("a.onnx", "b.onnx", "a.onnx"):
        model.save(tmp_path / place, external_data=True)
        assert model.path == tmp_path / place
        assert added(tmp_path / place) == 1


def test_data_comes_inside_when_asked_and_its_file_goes(tmp_path: Path) -> None:
    adding(7).save(tmp_path / "m.onnx", external_data=True)
    Model.load(tmp_path / "m.onnx").save(tmp_path / "m.onnx", external_data=False)
    assert names(tmp_path) == ["m.onnx"]
    assert added(tmp_path / "m.onnx") == 7


def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "m.onnx.data").write_text("mine")
    model = adding(1)
    for _ in range(2):
        model.save(tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx.data").read_text() == "mine"
    assert len(names(tmp_path)) == 3
    assert added(tmp_path / "m.onnx") == 1


def test_data_of_another_name_beside_an_old_model_is_left_alone(tmp_path: Path) -> None:
    """The old model at the target names a file that others may share; only files that we named are ours to remove."""
    proto = adding(1).to_proto()
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    adding(2).save(tmp_path / "m.onnx")
    assert names(tmp_path) == ["m.onnx", "weights.bin"]


def test_weights_too_small_for_a_file_of_their_own_stay_inside(tmp_path: Path) -> None:
    adding(4, size=2).save(tmp_path / "m.onnx", external_data=True)
    assert names(tmp_path) == ["m.onnx"]


def test_the_name_of_the_file_does_not_change_its_format(tmp_path: Path) -> None:
    adding(6).save(tmp_path / "m.json", external_data=True)
    assert added(tmp_path / "m.json") == 6


def test_data_of_attributes_and_functions_moves_too(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    values = np.arange(SIZE, dtype=np.float32)
    (tmp_path / "old" / "c.bin").write_bytes(values.tobytes())
    tensor = TensorProto(name="c", data_type=1, dims=[SIZE], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="c.bin")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    function = helper.make_function(
        "local", "Scale", ["a"], ["b"], [constant, helper.make_node("Mul", ["a", "c"], ["b"])], opsets[:1]
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE]) for name in "xy")
    nodes = [
        helper.make_node("Scale", ["x"], ["t"], domain="local"),
        constant,
        helper.make_node("Add", ["t", "c"], ["y"]),
    ]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, functions=[function], ir_version=10
    )
    (tmp_path / "old" / "m.onnx").write_bytes(proto.SerializeToString())

    Model.load(tmp_path / "old" / "m.onnx").save(tmp_path / "new" / "m.onnx")
    shutil.rmtree(tmp_path / "old")
    session = ort.InferenceSession(tmp_path / "new" / "m.onnx", providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"x": np.ones(SIZE, np.float32)})[0], 2 * values)


@pytest.mark.parametrize("outside", [True, False])
def test_a_place_that_cannot_be_written_is_an_error_and_the_model_stays_usable(tmp_path: Path, outside: bool) -> None:
    model = adding(1)
    for place in (tmp_path / "missing" / "m.onnx", tmp_path, Path("/dev/null"), Path()):
        with pytest.raises(OutputError, match="cannot write"):
            model.save(place, external_data=outside)
    assert names(tmp_path) == []
    model.save(tmp_path / "m.onnx")
    assert added(tmp_path / "m.onnx") == 1


def test_more_than_protobuf_holds_is_refused_before_it_is_read(tmp_path: Path) -> None:
    huge = ir.ExternalTensor("gone.data", 0, 3 << 30, ir.DataType.FLOAT, shape=ir.Shape([3 << 28]), name="w")
    model = adding(1)
    model.ir.graph.initializers["w"].const_value = huge
    with pytest.raises(OutputError, match="protobuf ends at 2 GiB") as caught:
        model.save(tmp_path / "m.onnx", external_data=False)
    assert "external data" in caught.value.hint
    assert names(tmp_path) == []


def test_weights_are_counted_without_being_read(tmp_path: Path) -> None:
    adding(1).save(tmp_path / "m.onnx", external_data=True)
    model = Model.load(tmp_path / "m.onnx")
    assert model.weight_bytes() == 4 * SIZE
    tensor = model.ir.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert tensor.raw is None


def test_standard_operators_go_by_one_name_whatever_the_file_calls_them(tmp_path: Path) -> None:
    """What is built into a model imports '', and a graph that says 'ai.onnx' alone would be left without an import."""
    text = '<ir_version: 10, opset_import: ["ai.onnx": 20]> g (float[n] x) => (float[n] y) { y = ai.onnx.Relu(x) }'
    model = Model.from_text(text)
    assert model.ir.opset_imports == {"": 20}
    model.ir.graph.append(ir.node("Neg", [model.ir.graph.outputs[0]]))
    model.ir.graph.outputs[0] = next(reversed(model.ir.graph)).outputs[0]
    model.ir.graph.outputs[0].name = "z"
    model.save(tmp_path / "named.onnx")
    session = ort.InferenceSession(tmp_path / "named.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": np.float32([-1, 2])})[0], [0, -2])
