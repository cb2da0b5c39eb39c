"""Libraries to compare with, each installed into a folder of its own under build/peers when it is first needed."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PEERS = Path(__file__).parent.parent / "build" / "peers"
# The last release is of 2024 and needs the libraries of its time.
ORT_TRAINING = ("onnxruntime-training-cpu==1.19.2", "onnx==1.16.2", "numpy==1.26.4", "protobuf==4.25.8")
DIFFERENTIATORS = {"onnxsim": "onnxsim==0.8.1", "onnx-ad": "onnx-ad==0.3.0"}


def ort_training() -> Path:
    """The Python of an environment with onnxruntime-training."""
    folder = PEERS / "ort-training"
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True)
        _pip(python, *ORT_TRAINING)
        # It imports PyTorch for its types alone, so that this one does; its own packages come first.
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "zz_borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
        done.touch()
    return python


def differentiator(name: str) -> Path:
    """A folder that holds the library alone; what it needs is here already."""
    folder = PEERS / name
    done = folder / "installed"
    if not done.exists():
        _pip(Path(sys.executable), "--no-deps", "--target", str(folder), DIFFERENTIATORS[name])
        done.touch()
    return folder


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "-q", *words], check=True, stdout=sys.stderr)
