"""What a step of a prepared folder really takes: python training_memory.py FOLDER BATCH prints the bytes it grew by."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sardonyx.run.session import Settings
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.feeding import signature
from sardonyx.training.forecast import sizes_for
from sardonyx.training.manifest import Manifest
from sardonyx.training.stepper import FusedStep


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def grown(folder: Path, batch: int) -> int:
    """The peak of resident memory over three steps, less what was there before the checkpoint was read."""
    manifest = Manifest.open(folder)
    feeds = signature(manifest).sample(sizes=sizes_for(manifest, batch))
    for label in manifest.labels:
        feeds[label.name] = np.zeros_like(feeds[label.name])
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    before = _status("VmRSS")
    state = CheckpointState.load_checkpoint(folder / manifest.files["checkpoint"])
    stepper = FusedStep(folder, manifest, state, settings=Settings(threads=1))
    for _ in range(3):
        stepper.step([feeds], 0.001)
    return _status("VmHWM") - before


if __name__ == "__main__":
    sys.stdout.write(str(grown(Path(sys.argv[1]), int(sys.argv[2]))))
