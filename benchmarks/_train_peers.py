"""Libraries to compare with, each installed into a folder of its own under build/peers when it is first needed."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from _environments import PEERS, environment, install

# The last release is of 2024 and needs the libraries of its time.
ORT_TRAINING = ("onnxruntime-training-cpu==1.19.2", "onnx==1.16.2", "numpy==1.26.4", "protobuf==4.25.8")
DIFFERENTIATORS = {"onnxsim": "onnxsim==0.8.1", "onnx-ad": "onnx-ad==0.3.0"}


def ort_training() -> Path:
    """The Python of an environment with onnxruntime-training."""
    python = environment("ort-training", *ORT_TRAINING)
    # It imports PyTorch for its types alone, so that this one does; its own packages come first.
    [packages] = python.parent.parent.glob("lib/python*/site-packages")
    (packages / "zz_borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def differentiator(name: str) -> Path:
    """A folder that holds the library alone; what it needs is here already."""
    folder = PEERS / name
    if not (folder / "done").exists():
        install(DIFFERENTIATORS[name], after=("--no-deps", "--target", str(folder)))
        (folder / "done").touch()
    return folder
