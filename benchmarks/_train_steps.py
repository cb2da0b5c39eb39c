"""A step of training, by each of the ways that are compared in this environment.

python benchmarks/_train_steps.py eager cnn adamw 1
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _train_worker
import numpy as np

Step = Callable[[], object]
RATE = 0.001


def eager(network: str, optimizer: str, threads: int) -> Step:
    """PyTorch as it is written."""
    return _torch(network, optimizer, threads, lambda module: module)


def compiled(network: str, optimizer: str, threads: int) -> Step:
    """The network through torch.compile, which compiles its backward pass too."""
    import _train_artifacts
    import torch

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_train_artifacts.KEPT / "inductor"))
    return _torch(network, optimizer, threads, torch.compile)


def _torch(network: str, optimizer: str, threads: int, wrap: Callable[[Any], Any]) -> Step:
    import _train_networks
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    module = _train_networks.made(network)
    inputs, labels = map(torch.tensor, _train_networks.NETWORKS[network].batch())
    kinds: dict[str, Any] = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    update = kinds[optimizer](module.parameters(), lr=RATE)
    forward = wrap(module)

    def step() -> float:
        update.zero_grad()
        loss = nn.functional.cross_entropy(forward(inputs), labels)
        loss.backward()
        update.step()
        return loss.item()

    return step


def sardonyx(network: str, optimizer: str, threads: int) -> Step:
    """The fused step on stock onnxruntime."""
    import _train_artifacts

    from sardonyx.run.session import Settings
    from sardonyx.training.checkpoint import CheckpointState
    from sardonyx.training.manifest import Manifest
    from sardonyx.training.stepper import FusedStep

    folder, batch = _train_artifacts.sardonyx(network, optimizer), _train_artifacts.batch(network)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    stepper = FusedStep(folder, Manifest.open(folder), state, settings=Settings(threads=threads))
    feeds = {"x": batch[0], "labels": batch[1]}
    return lambda: stepper.step([feeds], RATE)


def onnxsim(network: str, optimizer: str, threads: int) -> Step:
    """onnxsim's compiled loop. It takes static shapes, and a loss in the operators that it differentiates."""
    import _train_artifacts
    import _train_peers
    import onnxruntime

    sys.path.insert(0, str(_train_peers.differentiator("onnxsim")))
    _limit_threads(onnxruntime, threads)
    import onnxsim.compile_training as loops

    model = _train_artifacts.with_loss(network, written_out=True)
    trained = _train_artifacts.trained(model)
    rule = {"sgd": "sgd_momentum", "adamw": "adam"}[optimizer]
    loop = loops.compile_training_loop(model, "loss", trained, rule)
    x, y = _train_artifacts.batch(network)
    feeds = {"x": x, "hot": np.eye(_train_artifacts.CLASSES, dtype=np.float32)[y]}
    return lambda: loop(feeds, RATE)


def onnx_ad(network: str, optimizer: str, threads: int) -> Step:  # noqa: ARG001
    """onnx-ad's gradient graph, forward and backward alone: it has no optimizers."""
    import _train_artifacts
    import _train_peers
    import onnxruntime as ort

    sys.path.insert(0, str(_train_peers.differentiator("onnx-ad")))
    from onnx_ad import reverse

    model = _train_artifacts.with_loss(network, written_out=False)
    trained = _train_artifacts.trained(model)
    values = _train_artifacts.as_inputs(model, trained)
    found = reverse(model, inputs=trained, outputs=["loss"], layout="onnx")
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = threads
    session = ort.InferenceSession(found.SerializeToString(), chosen, providers=["CPUExecutionProvider"])
    x, y = _train_artifacts.batch(network)
    given = {value.name: value for value in session.get_inputs()}
    seed = next(name for name in given if name not in values and name not in ("x", "labels"))
    one = np.ones([1] * len(given[seed].shape), np.float32)
    feeds = {"x": x, "labels": y, seed: one, **values}
    names = [output.name for output in session.get_outputs()]
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)

    def step() -> None:
        for name in names:
            binding.bind_output(name)
        session.run_with_iobinding(binding)

    return step


def _limit_threads(runtime: Any, threads: int) -> None:
    """Makes sessions that others open take so many threads."""
    first = runtime.InferenceSession

    def opened(model: Any, sess_options: Any = None, **words: Any) -> Any:
        chosen = sess_options or runtime.SessionOptions()
        chosen.intra_op_num_threads = threads
        return first(model, chosen, **words)

    runtime.InferenceSession = opened


VARIANTS: dict[str, Callable[[str, str, int], Step]] = {
    "eager": eager, "compiled": compiled, "sardonyx": sardonyx, "onnxsim": onnxsim, "onnx-ad": onnx_ad,
}  # fmt: skip


def main(variant: str, network: str, optimizer: str, threads: str) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    _train_worker.serve(lambda: VARIANTS[variant](network, optimizer, int(threads)))


if __name__ == "__main__":
    main(*sys.argv[1:])
