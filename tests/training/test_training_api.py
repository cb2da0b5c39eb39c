"""onnxruntime-training's API on stock onnxruntime: artifacts in, steps, parameters out."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.errors import BadData, InputError, NotFound, UsageError
from sardonyx.model import Model
from sardonyx.run.session import Session
from sardonyx.training import artifacts, onnxblock
from sardonyx.training.api import CheckpointState, LinearLRScheduler, Module, Optimizer
from sardonyx.training.artifacts import LossType, OptimType, generate_artifacts
from sardonyx.training.dropout import mask_in_numpy
from sardonyx.training.lora import adapted
from sardonyx.training.manifest import Manifest

LINEAR = """<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)
<float[4,3] w = {0.1,-0.2,0.3, 0.4,0.5,-0.6, 0.7,-0.8,0.9, -0.1,0.2,0.3}, float[3] b = {0.1,-0.1,0.2}>
{ z = MatMul(x, w) y = Add(z, b) }"""
DROPPING = LINEAR.replace("y = Add(z, b)", "r = Constant<value = float {0.4}>() a = Add(z, b) y = Dropout(a, r)")
NORMAL = LINEAR.replace(
    "float[3] b", "float[3] m = {0,0,0}, float[3] v = {1,1,1}, float[3] s = {1,1,1}, float[3] b"
).replace("y = Add(z, b)", "y = BatchNormalization(z, s, b, m, v)")
# onnxruntime-training's own, in its order.
SIGNATURE = [
    "model", "requires_grad", "frozen_params", "loss", "optimizer", "artifact_directory", "prefix", "ort_format",
    "custom_op_library", "additional_output_names", "nominal_checkpoint", "loss_input_names",
]  # fmt: skip


def made(folder: Path, text: str = LINEAR, **options: object) -> tuple[Module, Optimizer]:
    given = {"loss": LossType.CrossEntropyLoss, "optimizer": OptimType.AdamW, **options}
    generate_artifacts(Model.from_text(text), artifact_directory=folder, **given)  # type: ignore[arg-type]
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    return module, Optimizer(folder / "optimizer_model.onnx", module)


def batch(seed: int = 0, size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(size, 4)).astype(np.float32), random.integers(0, 3, size)


def test_the_signature_is_onnxruntime_trainings() -> None:
    found = [p.name for p in inspect.signature(generate_artifacts).parameters.values() if p.kind != p.KEYWORD_ONLY]
    assert found == SIGNATURE


def test_a_round_of_training_lowers_the_loss(tmp_path: Path) -> None:
    module, optimizer = made(tmp_path)
    optimizer.set_learning_rate(0.05)
    losses = []
    for _ in range(20):
        losses.append(float(module(*batch())))
        optimizer.step()
        module.lazy_reset_grad()
    assert losses[-1] < 0.6 * losses[0]
    assert optimizer.get_learning_rate() == 0.05


def test_the_files_are_onnxruntime_trainings_and_ours_beside_them(tmp_path: Path) -> None:
    made(tmp_path, nominal_checkpoint=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        "training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "step_model.onnx", "checkpoint",
        "nominal_checkpoint", "manifest.json", "shapes.json",
    }  # fmt: skip
    shapes = json.loads((tmp_path / "shapes.json").read_text())
    assert shapes == [{"name": "w", "shape": [4, 3]}, {"name": "b", "shape": [3]}]
    assert [each.offset for each in Manifest.open(tmp_path).trainable] == [0, 12]


def test_gradients_add_up_until_they_are_reset(tmp_path: Path) -> None:
    module, _ = made(tmp_path)
    module(*batch())
    once = np.array(module.state.parameters["w"].grad)
    module(*batch())
    np.testing.assert_allclose(module.state.parameters["w"].grad, 2 * once, rtol=1e-6)
    module.lazy_reset_grad()
    module(*batch())
    np.testing.assert_allclose(module.state.parameters["w"].grad, once, rtol=1e-6)


def test_parameters_go_out_and_in_as_one_vector(tmp_path: Path) -> None:
    module, _ = made(tmp_path)
    vector = module.get_contiguous_parameters(trainable_only=True).numpy()
    assert vector.shape == (module.get_parameters_size(),) == (15,)
    module.copy_buffer_to_parameters(np.arange(15, dtype=np.float32))
    np.testing.assert_array_equal(module.state.parameters["w"].data.reshape(-1), np.arange(12))
    with pytest.raises(BadData, match="holds 3 numbers"):
        module.copy_buffer_to_parameters(np.zeros(3, np.float32))


def test_a_saved_run_goes_on_exactly(tmp_path: Path) -> None:
    module, optimizer = made(tmp_path)
    for seed in range(3):
        module(*batch(seed))
        optimizer.step()
        module.lazy_reset_grad()
    CheckpointState.save_checkpoint(module.state, tmp_path / "saved", include_optimizer_state=True)
    again = CheckpointState.load_checkpoint(tmp_path / "saved")
    other = Module(tmp_path / "training_model.onnx", again)
    second = Optimizer(tmp_path / "optimizer_model.onnx", other)
    for each, mover in ((module, optimizer), (other, second)):
        each(*batch(9))
        mover.step()
    for name, _ in module.state.parameters:
        np.testing.assert_array_equal(module.state.arrays[name], again.arrays[name])


def test_frozen_parameters_keep_their_values(tmp_path: Path) -> None:
    module, optimizer = made(tmp_path, frozen_params=["b"])
    module(*batch())
    optimizer.step()
    np.testing.assert_array_equal(module.state.parameters["b"].data, np.float32([0.1, -0.1, 0.2]))
    assert not module.state.parameters["b"].requires_grad
    assert module.state.parameters["b"].grad is None


def test_the_export_is_the_evaluation_graph(tmp_path: Path) -> None:
    module, optimizer = made(tmp_path)
    module(*batch())
    optimizer.step()
    module.export_model_for_inferencing(tmp_path / "m.onnx", ["y"])
    inputs, labels = batch(3)
    module.eval()
    loss, y = module(inputs, labels)
    assert loss > 0
    np.testing.assert_array_equal(Session(tmp_path / "m.onnx")({"x": inputs})["y"], y)


def test_dropout_has_the_documented_mask(tmp_path: Path) -> None:
    module, _ = made(tmp_path, DROPPING, additional_output_names=["y"])
    inputs, labels = batch(size=50)
    _, dropped = module(inputs, labels)
    whole = inputs @ module.state.arrays["w"] + module.state.arrays["b"]
    kept = mask_in_numpy((50, 3), seed=0, ratio=0.4, node=0)
    assert 0.5 < kept.mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(kept, whole / 0.6, 0), rtol=1e-5, atol=1e-6)
    _, other = module(inputs, labels)
    assert ((other == 0) != (dropped == 0)).any()


def test_a_mask_drops_its_share_evenly() -> None:
    kept = mask_in_numpy((1000, 100), seed=7, ratio=0.25, node=2)
    # Means of 1,000 and 100 draws with a deviation of 0.43: five of their own deviations.
    assert abs(kept.mean(axis=0) - 0.75).max() < 5 * 0.43 / 1000**0.5
    assert abs(kept.mean(axis=1) - 0.75).max() < 5 * 0.43 / 100**0.5
    neighbours = np.corrcoef(kept[:, :-1].reshape(-1), kept[:, 1:].reshape(-1))[0, 1]
    assert abs(neighbours) < 5 / 99_000**0.5


@pytest.mark.parametrize(("kind", "divisor"), [("onnx", 6), ("torch", 5)])
def test_running_variance_follows_onnx_or_pytorch(tmp_path: Path, kind: str, divisor: int) -> None:
    module, _ = made(tmp_path, NORMAL, batch_norm=kind)
    inputs, labels = batch()
    module(inputs, labels)
    z = inputs @ module.state.arrays["w"]
    expected = 0.9 + 0.1 * ((z - z.mean(0)) ** 2).sum(0) / divisor
    np.testing.assert_allclose(module.state.arrays["v"], expected, rtol=1e-5)
    np.testing.assert_allclose(module.state.arrays["m"], 0.1 * z.mean(0), rtol=1e-4, atol=1e-6)


def test_frozen_statistics_stay(tmp_path: Path) -> None:
    module, _ = made(tmp_path, NORMAL, batch_norm="frozen")
    module(*batch())
    np.testing.assert_array_equal(module.state.arrays["v"], np.ones(3))


def test_a_block_of_ones_own_is_a_loss(tmp_path: Path) -> None:
    class Penalised(onnxblock.Block):
        def __init__(self) -> None:
            super().__init__()
            self.loss = onnxblock.loss.CrossEntropyLoss()

        def build(self, *values: Any) -> Any:
            return self.loss(values[0]) + 0.5 * onnxblock.op("ReduceSumSquare", values[0], keepdims=0)

    plain, _ = made(tmp_path / "plain")
    own, _ = made(tmp_path / "own", loss=Penalised(), optimizer=onnxblock.optim.SGD(momentum=0.9))
    x, labels = batch()
    scores = x @ own.state.arrays["w"] + own.state.arrays["b"]
    assert float(own(x, labels)) == pytest.approx(float(plain(x, labels)) + 0.5 * (scores**2).sum(), rel=1e-5)


def test_any_onnx_graph_is_a_loss(tmp_path: Path) -> None:
    loss = Model.from_text(
        '<ir_version: 10, opset_import: ["": 20]> l (float[n,3] y, float[n,3] wanted) => (float out) '
        "{ d = Sub(y, wanted) s = Mul(d, d) out = ReduceMean<keepdims=0>(s) }"
    )
    module, _ = made(tmp_path, loss=loss)
    assert module.input_names() == ["x", "wanted"]
    x, _ = batch()
    scores = x @ module.state.arrays["w"] + module.state.arrays["b"]
    assert float(module(x, np.zeros((6, 3), np.float32))) == pytest.approx(float((scores**2).mean()), rel=1e-5)


def test_the_linear_schedule_climbs_and_falls(tmp_path: Path) -> None:
    _, optimizer = made(tmp_path)
    schedule = LinearLRScheduler(optimizer, warmup_step_count=2, total_step_count=6, initial_lr=1.0)
    seen = [optimizer.get_learning_rate()]
    for _ in range(6):
        schedule.step()
        seen.append(optimizer.get_learning_rate())
    assert seen == [0, 0.5, 1, 0.75, 0.5, 0.25, 0]


def test_adapters_start_as_the_model_and_merge_back(tmp_path: Path) -> None:
    model = adapted(Model.from_text(LINEAR), rank=2)
    manifest = generate_artifacts(
        model,
        requires_grad=["*.lora_a", "*.lora_b"],
        loss="cross_entropy",
        optimizer="adam",
        artifact_directory=tmp_path,
    )
    assert [each.name for each in manifest.trainable] == ["w.lora_a", "w.lora_b"]
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = Module(tmp_path / "training_model.onnx", state, tmp_path / "eval_model.onnx")
    optimizer = Optimizer(tmp_path / "optimizer_model.onnx", module)
    x, labels = batch()
    module.eval()
    np.testing.assert_allclose(module(x, labels)[1], x @ state.arrays["w"] + state.arrays["b"], rtol=1e-5)
    module.train()
    for _ in range(3):
        module(x, labels)
        optimizer.step()
        module.lazy_reset_grad()
    module.export_model_for_inferencing(tmp_path / "m.onnx")
    merged = Model.load(tmp_path / "m.onnx")
    assert set(merged.ir.graph.initializers) == {"w", "b"}
    module.eval()
    np.testing.assert_allclose(Session(merged)({"x": x})["y"], module(x, labels)[1], rtol=1e-5, atol=1e-6)


def test_a_label_out_of_range_is_named(tmp_path: Path) -> None:
    module, _ = made(tmp_path)
    with pytest.raises(BadData, match="class 3, and the model has the classes 0 to 2"):
        module(batch()[0], np.array([0, 1, 2, 3, 0, 0]))


def test_a_batch_of_another_shape_or_count_is_named(tmp_path: Path) -> None:
    module, _ = made(tmp_path)
    with pytest.raises(BadData, match="x"):
        module(np.zeros((6, 5), np.float32), batch()[1])
    with pytest.raises(BadData, match="1 arrays for 2 inputs"):
        module(batch()[0])


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "a")
    made(tmp_path / "b", LINEAR.replace("float[4,3] w", "float[4,3] u").replace("MatMul(x, w)", "MatMul(x, u)"))
    state = CheckpointState.load_checkpoint(tmp_path / "b" / "checkpoint")
    with pytest.raises(InputError, match="belongs to another model: it has no 'w'"):
        Module(tmp_path / "a" / "training_model.onnx", state)


def test_what_is_no_artifact_is_refused(tmp_path: Path) -> None:
    Model.from_text(LINEAR).save(tmp_path / "m.onnx")
    module, _ = made(tmp_path / "a")
    with pytest.raises(InputError, match="no training artifact"):
        Module(tmp_path / "m.onnx", module.state)
    with pytest.raises(InputError, match="cannot be read"):
        CheckpointState.load_checkpoint(tmp_path / "m.onnx")
    with pytest.raises(NotFound):
        CheckpointState.load_checkpoint(tmp_path / "gone")
    with pytest.raises(UsageError, match="cannot train on 'cuda'"):
        Module(tmp_path / "a" / "training_model.onnx", module.state, device="cuda")


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(NotFound, match="no parameter is called 'nothing'"):
        artifacts.generate_artifacts(Model.from_text(LINEAR), requires_grad=["nothing"], loss="mse")
