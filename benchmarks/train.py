"""A step of training, batch 64: PyTorch eager and the fused step on stock onnxruntime, taking turns.

Prints its section of RESULTS.md.
"""

from __future__ import annotations

import importlib.util
import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from sardonyx.bench.interleave import speedup, take_turns
from sardonyx.model import Model
from sardonyx.run.session import Settings
from sardonyx.training import artifacts
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.graphs import Rule
from sardonyx.training.stepper import FusedStep

EXAMPLES = Path(__file__).parent.parent / "examples" / "models"
SECONDS = 5.0
BATCH = 64
# Two threads of PyTorch wait for each other at every barrier, so a core that others use falsifies them: add 2 on a quiet machine.
THREADS = (1,)
NETWORKS = {
    "dense 784-200-200-10": ("mnist", "Dense", (BATCH, 784)),
    "CIFAR-10 CNN": ("cifar10", "Convolutional", (BATCH, 3, 32, 32)),
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.001),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.001),
}


def main() -> None:
    print("## Training\n")
    print(
        f"How many times as fast as PyTorch eager a whole step is (forward, backward, update), batch {BATCH}. The goal is at"
    )
    print("least 1 for the dense network and 0.9 for the CNN.\n")
    print("| network | optimizer | threads | times as fast as PyTorch |\n|---|---|---|---|")
    for name, (folder, kind, shape) in NETWORKS.items():
        for optimizer in OPTIMIZERS:
            for threads in THREADS:
                network = getattr(_module(EXAMPLES / folder / "compile.py"), kind)()
                print(
                    f"| {name} | {optimizer} | {threads} | {_ratio(network, shape, optimizer, threads)} |", flush=True
                )


def _ratio(network: nn.Module, shape: tuple[int, ...], optimizer: str, threads: int) -> object:
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    x, y = random.normal(size=shape).astype(np.float32), random.integers(0, 10, BATCH)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        manifest = artifacts.generate_artifacts(
            _exported(network, shape), loss="cross_entropy", optimizer=Rule(optimizer), artifact_directory=folder
        )
        state = CheckpointState.load_checkpoint(folder / "checkpoint")
        # Idle threads of onnxruntime that spin would take the cores from PyTorch in its turn.
        fused = FusedStep(folder, manifest, state, settings=Settings(threads=threads, spinning=False))
    theirs = OPTIMIZERS[optimizer](network.parameters())
    inputs, labels = torch.tensor(x), torch.tensor(y)

    def eager() -> None:
        theirs.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        theirs.step()

    seconds = take_turns(
        {"torch": eager, "sardonyx": lambda: fused.step([{"x": x, "labels": y}], 0.001)}, seconds=SECONDS
    )
    return speedup(seconds["torch"], seconds["sardonyx"])


def _exported(network: nn.Module, shape: tuple[int, ...]) -> Model:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (torch.zeros(shape),), stream, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, do_constant_folding=False,
        )  # fmt: skip
    return Model.from_proto(onnx.load_from_string(stream.getvalue()))


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
