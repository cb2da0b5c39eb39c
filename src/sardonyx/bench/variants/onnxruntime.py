"""An ONNX model, or the one in a bundle, in onnxruntime: the runtime of whatever comes without a prefix and is ONNX."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sardonyx.bench.interleave import Turn, timed
from sardonyx.bench.process import Process
from sardonyx.bench.variants._variant import Cold, How, as_onnx, existing, onnx_bytes
from sardonyx.errors import UsageError
from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings, provider_name
from sardonyx.signature import Arrays, Signature

REQUIRES = None


def accepts(source: Any) -> bool:
    return as_onnx(source) is not None


@contextmanager
def opened(source: Any, how: How) -> Iterator[OnnxVariant]:
    found = as_onnx(source)
    if found is None:
        raise UsageError(f"{source} is not an ONNX model", hint="leave the prefix out to run it in its own framework")
    with temporary_folder() as scratch:
        # A model in memory is written out, so that its size and its cold start are those of the file it would be.
        path = found.save(scratch / "model.onnx") if isinstance(found, Model) else existing(found)
        yield OnnxVariant(path, how)


class OnnxVariant:
    """A session of this process."""

    def __init__(self, path: Path, how: How) -> None:
        self.onnx, self._how = path, how
        self._session = Session(path, Settings(provider=how.provider, threads=how.threads, rests=True))
        self.signature: Signature = self._session.signature
        self.takes = self.signature
        self.size = onnx_bytes(path)

    def prepare(self, inputs: Arrays) -> Turn:
        return timed(partial(self._session.run_fitted, inputs))

    def answers(self, inputs: Arrays) -> list[Any]:
        return list(self._session.run_fitted(inputs).values())

    def cold(self, inputs: Arrays) -> Cold:
        threads = self._session.settings.thread_count
        request = {"path": str(self.onnx), "threads": threads, "provider": provider_name(self._how.provider)}
        started = time.perf_counter()
        with Process("onnxruntime", request, threads=threads, timeout=self._how.timeout) as process:
            process.prepare(inputs)(1)
            return Cold(time.perf_counter() - started, process.peak_memory())
