"""What calibrating MobileNetV2 on a thousand images takes of memory beyond what the model takes to run, by every calibrator.

Prints one JSON object. A process of its own, so that its peak is that of calibration.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
from _subjects import subjects

from sardonyx import registry
from sardonyx.model import Model
from sardonyx.quantize.evening import evened
from sardonyx.quantize.prepare import prepared
from sardonyx.quantize.split import BATCH
from sardonyx.quantize.subject import CALIBRATORS, Subject
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch

IMAGES = 1000


class Images:
    """A thousand images in batches, those of the benchmark over and over, read from the disk as they are needed."""

    def __init__(self, path: str) -> None:
        self._rows = np.load(path, mmap_mode="r")

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, IMAGES, BATCH):
            yield Batch({"image": np.array(self._rows[[at % len(self._rows) for at in range(start, start + BATCH)]])})


def main() -> None:
    [subject] = subjects(["mobilenet-v2"])
    images = subject.data.with_name("images.npy")
    if not images.exists():  # in a child: this process must never have held them
        unpack = "import numpy as np, sys; np.save(sys.argv[2], np.load(sys.argv[1])['image'])"
        subprocess.run([sys.executable, "-c", unpack, subject.data, images], check=True)
    settings = Settings(threads=1)
    session = Session(subject.model, settings)
    session.run_fitted(next(iter(Images(str(images)))).inputs)
    alone = _peak()
    ready = evened(prepared(Model.load(subject.model)), Images(str(images)), settings)
    work = Subject(ready, Images(str(images)), settings)
    assert work.rounding.moments, "what rounding looks at is part of calibration"
    above = {}
    for name in registry.names(CALIBRATORS):
        work.ranges(name)
        above[name] = _peak() - alone
    print(json.dumps({"images": IMAGES, "alone": alone, "above": above}))


def _peak() -> int:
    """The most bytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()
