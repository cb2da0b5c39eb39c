"""Programs written for onnxruntime-training's `onnxblock` and `api` run with another import line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from sardonyx.errors import BadData, UsageError
from sardonyx.model import Model
from sardonyx.training import artifacts, onnxblock
from sardonyx.training.api import CheckpointState, Module, Optimizer

TEXT = """<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)
<float[4,3] w = {0.1,-0.2,0.3, 0.4,0.5,-0.6, 0.7,-0.8,0.9, -0.1,0.2,0.3}, float[3] b = {0.1,-0.1,0.2}>
{ z = MatMul(x, w) y = Add(z, b) }"""
W = np.array([0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, -0.8, 0.9, -0.1, 0.2, 0.3], np.float32).reshape(4, 3)
B = np.array([0.1, -0.1, 0.2], np.float32)
X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
WANTED = np.random.default_rng(1).random((6, 3)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def proto() -> onnx.ModelProto:
    return Model.from_text(TEXT).to_proto()


def module_of(folder: Path, **options: Any) -> Module:
    artifacts.generate_artifacts(proto(), artifact_directory=folder, **options)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    return Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")


class Weighted(onnxblock.Block):
    """Every small block at once, made before the call and during it."""

    def __init__(self) -> None:
        super().__init__()
        make = onnxblock.blocks
        self.sub, self.square, self.mean = make.Sub(), make.Pow(2.0), make.ReduceMean(keepdims=False)
        self.add, self.mul, self.half, self.clip = make.Add(), make.Mul(), make.Constant(0.5), make.Clip(-1.0, 1.0)
        self.abs, self.neg, self.total = make.Abs(), make.Neg(), make.ReduceSum(keepdims=False)

    def build(self, scores_name: Any) -> Any:
        target = onnxblock.blocks.InputLike(scores_name)("wanted")
        squared = self.mean(self.square(self.sub(scores_name, target)))
        penalty = self.total(self.abs(self.neg(self.clip(scores_name))))
        return self.add(squared, self.mul(self.half(), penalty))


def test_a_loss_of_small_blocks_computes_what_it_says(tmp_path: Path) -> None:
    module = module_of(tmp_path, loss=Weighted())
    assert module.input_names() == ["x", "wanted"]
    y = X @ W + B
    expected = ((y - WANTED) ** 2).mean() + 0.5 * abs(np.clip(y, -1, 1)).sum()
    assert float(module(X, WANTED)) == pytest.approx(expected, rel=1e-5)


def test_a_sigmoid_of_blocks_is_the_loss_with_logits(tmp_path: Path) -> None:
    class Binary(onnxblock.Block):
        def build(self, scores_name: Any) -> Any:
            make = onnxblock.blocks
            target = make.InputLike(scores_name)("target")
            p, one = make.Sigmoid()(scores_name), make.Constant(1.0)()
            both = make.Add()(
                make.Mul()(make.Log()(p), target), make.Mul()(make.Log()(make.Sub()(one, p)), make.Sub()(one, target))
            )
            return make.Div()(make.Neg()(make.ReduceSum(keepdims=False)(both)), make.Constant(18.0)())

    blocks = module_of(tmp_path / "a", loss=Binary())
    named = module_of(tmp_path / "b", loss=artifacts.LossType.BCEWithLogitsLoss)
    assert float(blocks(X, WANTED)) == pytest.approx(float(named(X, WANTED)), rel=1e-5)
    np.testing.assert_allclose(
        blocks.state.parameters["w"].grad, named.state.parameters["w"].grad, rtol=1e-4, atol=1e-6
    )


def test_a_loss_takes_a_name_for_its_target(tmp_path: Path) -> None:
    class Two(onnxblock.Block):
        def build(self, scores_name: Any) -> Any:
            first = onnxblock.loss.CrossEntropyLoss(weight=np.array([1.0, 2.0, 0.5], np.float32))(
                scores_name, "classes"
            )
            return first + onnxblock.loss.L1Loss(reduction="sum")(scores_name, "wanted")

    module = module_of(tmp_path, loss=Two())
    assert module.input_names() == ["x", "classes", "wanted"]
    alone = module_of(tmp_path / "alone", loss="cross_entropy", loss_options={"weight": [1.0, 2.0, 0.5]})
    expected = float(alone(X, LABELS)) + abs(X @ W + B - WANTED).sum()
    assert float(module(X, LABELS, WANTED)) == pytest.approx(expected, rel=1e-5)


def test_a_training_block_gives_its_graphs_and_parameters(tmp_path: Path) -> None:
    class Training(onnxblock.TrainingBlock):
        def __init__(self) -> None:
            super().__init__()
            self.loss = onnxblock.loss.CrossEntropyLoss()

        def build(self, scores_name: Any) -> Any:
            return self.loss(scores_name)

    block, model = Training(), proto()
    block.requires_grad("w")
    block.requires_grad("b", False)
    with pytest.raises(UsageError, match="needs a model"):
        block("y")
    with pytest.raises(UsageError, match="not built"):
        block.to_model_proto()
    with onnxblock.base(model):
        block(*[output.name for output in model.graph.output])
    training, evaluation = block.to_model_proto()
    learning, frozen = block.parameters()
    assert [each.name for each in learning] == ["w"]
    assert [each.name for each in frozen] == ["b"]
    onnx.save(training, tmp_path / "training.onnx")
    onnx.save(evaluation, tmp_path / "eval.onnx")
    onnxblock.save_checkpoint(block.parameters(), tmp_path / "checkpoint")
    module = Module(tmp_path / "training.onnx", CheckpointState.load_checkpoint(tmp_path / "checkpoint"))
    assert float(module(X, LABELS)) > 0
    module.state.parameters["w"] = np.zeros((4, 3), np.float32)
    CheckpointState.save_checkpoint(module.state, tmp_path / "checkpoint")
    onnxblock.load_checkpoint_to_model(tmp_path / "checkpoint", model)
    assert not onnx.numpy_helper.to_array(model.graph.initializer[0]).any()


def test_an_optimizer_block_clips(tmp_path: Path) -> None:
    clip = onnxblock.optim.ClipGradNorm(0.01)
    module = module_of(tmp_path, loss=artifacts.LossType.MSELoss, optimizer=onnxblock.optim.SGD(clip_grad=clip))
    optimizer = Optimizer(tmp_path / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(1.0)
    module(X, WANTED)
    optimizer.step()
    moved = [module.state.parameters["w"].data - W, module.state.parameters["b"].data - B]
    assert np.sqrt(sum((each**2).sum() for each in moved)) == pytest.approx(0.01, rel=1e-3)


def test_a_nominal_checkpoint_waits_for_its_parameters(tmp_path: Path) -> None:
    full = module_of(tmp_path, loss=artifacts.LossType.CrossEntropyLoss, nominal_checkpoint=True)
    assert (tmp_path / "nominal_checkpoint").stat().st_size < (tmp_path / "checkpoint").stat().st_size
    state = CheckpointState.load_checkpoint(tmp_path / "nominal_checkpoint")
    module = Module(tmp_path / "training_model.onnx", state, tmp_path / "eval_model.onnx")
    assert module.get_parameters_size() == 15
    with pytest.raises(UsageError, match="nominal checkpoint are not there yet"):
        module(X, LABELS)
    with pytest.raises(UsageError, match="needs all of its parameters"):
        module.copy_buffer_to_parameters(full.get_contiguous_parameters(True))
    module.copy_buffer_to_parameters(full.get_contiguous_parameters(), trainable_only=False)
    assert float(module(X, LABELS)) == float(full(X, LABELS))


def test_states_are_walked_and_changed_as_before(tmp_path: Path) -> None:
    state = module_of(tmp_path, loss=artifacts.LossType.CrossEntropyLoss).state
    assert [(name, parameter.requires_grad) for name, parameter in state.parameters] == [("w", True), ("b", True)]
    assert "w" in state.parameters
    assert "u" not in state.parameters
    assert len(state.parameters) == 2
    with pytest.raises(KeyError):
        state.parameters["u"]
    state.parameters["b"].data = np.ones(3, np.float32)
    state.properties["epoch"], state.properties["rate"], state.properties["name"] = 3, 0.5, "run"
    with pytest.raises(BadData, match="the property 'bad' is a list"):
        state.properties["bad"] = []  # type: ignore[assignment]
    CheckpointState.save_checkpoint(state, tmp_path / "saved")
    again = CheckpointState.load_checkpoint(tmp_path / "saved")
    assert dict(iter(again.properties)) == {"epoch": 3, "rate": 0.5, "name": "run"}
    assert "epoch" in again.properties
    assert len(again.properties) == 3
    np.testing.assert_array_equal(again.parameters["b"].data, np.ones(3))


def test_ortvalues_in_give_ortvalues_out(tmp_path: Path) -> None:
    module = module_of(tmp_path, loss=artifacts.LossType.CrossEntropyLoss, additional_output_names=["y"])
    given = [ort.OrtValue.ortvalue_from_numpy(each) for each in (X, LABELS)]
    loss, y = module(*given)
    again = module(X, LABELS)
    assert isinstance(again, tuple)
    assert loss.numpy() == again[0]
    np.testing.assert_array_equal(y.numpy(), again[1])


def test_what_is_trained_and_frozen_at_once_is_refused() -> None:
    with pytest.raises(UsageError, match="'w' is to be trained and to be frozen"):
        artifacts.generate_artifacts(proto(), requires_grad=["w", "b"], frozen_params=["w"], loss="mse")
