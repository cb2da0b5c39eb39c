"""An ONNX model in OpenVINO: `openvino:model.onnx`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sardonyx.bench.interleave import Turn
from sardonyx.bench.process import Process
from sardonyx.bench.variants._variant import Cold, How, as_onnx, existing, onnx_bytes
from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.signature import Arrays, Signature

REQUIRES = "openvino"


def accepts(source: Any) -> bool:  # noqa: ARG001  only by its prefix
    return False


@contextmanager
def opened(source: Any, how: How) -> Iterator[OpenVinoVariant]:
    path = as_onnx(source)
    if not isinstance(path, Path):
        raise UsageError(
            f"OpenVINO is given ONNX files, not {source}", hint="convert it first, or leave the prefix out"
        )
    variant = OpenVinoVariant(existing(path), how)
    with variant.process:
        yield variant


class OpenVinoVariant:
    """A compiled model in a process of its own."""

    def __init__(self, path: Path, how: How) -> None:
        self.onnx = None  # the profile is onnxruntime's
        self._path, self._how = path, how
        self.signature: Signature = Model.load(path).signature
        self.takes = self.signature
        self.size = onnx_bytes(path)
        self.process = self._start()

    def prepare(self, inputs: Arrays) -> Turn:
        return self.process.prepare(inputs)

    def answers(self, inputs: Arrays) -> list[Any]:
        return self.process.predict(inputs)

    def cold(self, inputs: Arrays) -> Cold:
        started = time.perf_counter()
        with self._start() as process:
            process.prepare(inputs)(1)
            return Cold(time.perf_counter() - started, process.peak_memory())

    def _start(self) -> Process:
        request = {"path": str(self._path), "threads": self._how.threads}
        return Process("openvino", request, threads=self._how.threads, timeout=self._how.timeout)
