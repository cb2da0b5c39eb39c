"""A step of training by onnxruntime-training 1.19.2, in its own environment: see `_train_peers.ort_training`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import _train_worker


def build(network: str, optimizer: str, threads: int) -> Callable[[], object]:
    import numpy as np
    import onnx
    import onnxruntime
    from onnxruntime.training import api, artifacts

    folder = Path(__file__).parent.parent / "build" / "train" / network
    model = onnx.load(folder / "older.onnx")
    trained = [
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and "running_" not in tensor.name and "." in tensor.name
    ]
    frozen = [tensor.name for tensor in model.graph.initializer if tensor.name not in trained]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as scratch:
        artifacts.generate_artifacts(
            model, requires_grad=trained, frozen_params=frozen, loss=artifacts.LossType.CrossEntropyLoss,
            optimizer={"sgd": artifacts.OptimType.SGD, "adamw": artifacts.OptimType.AdamW}[optimizer],
            artifact_directory=scratch,
        )  # fmt: skip
        state = api.CheckpointState.load_checkpoint(f"{scratch}/checkpoint")
        module = api.Module(f"{scratch}/training_model.onnx", state, session_options=options)
        update = api.Optimizer(f"{scratch}/optimizer_model.onnx", module)
    update.set_learning_rate(0.001)
    module.train()
    with np.load(folder / "batch.npz") as batch:
        x, labels = batch["x"], batch["labels"]

    def step() -> None:
        module(x, labels)
        update.step()
        module.lazy_reset_grad()

    return step


if __name__ == "__main__":
    _train_worker.serve(lambda: build(sys.argv[1], sys.argv[2], int(sys.argv[3])))
