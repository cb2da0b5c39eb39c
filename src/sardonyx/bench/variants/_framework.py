"""A model in its own framework, as the sources open it: in a process of its own, or here if it is a live object."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sardonyx.bench.interleave import Turn
from sardonyx.bench.process import environment
from sardonyx.bench.variants._variant import Cold, How, file_bytes
from sardonyx.errors import SourceFailed
from sardonyx.signature import Arrays, Signature, TensorSpec
from sardonyx.sources import Failure, Original, Source, recognise


class FrameworkVariant:
    """An open original. `options` go to its worker's `prepare`."""

    onnx = takes = None

    def __init__(self, original: Original, how: How, options: dict[str, Any]) -> None:
        self._original, self._how, self._options = original, how, options
        self.signature = _signature(original.describe())
        self.size = _size(original.source)

    def prepare(self, inputs: Arrays) -> Turn:
        return self._original.prepare(inputs, threads=self._how.threads, **self._options)

    def answers(self, inputs: Arrays) -> Sequence[Any]:
        if self._options:  # the worker answers with the model as it is, which is not what was measured
            raise SourceFailed(f"{self._original.source} is measured in another form than it answers in")
        answer = self._original.predict([inputs])[0]
        if isinstance(answer, Failure):
            raise SourceFailed(f"{self._original.source} failed: {answer.reason}")
        return answer.arrays

    def cold(self, inputs: Arrays) -> Cold:
        if self._original.source.live:
            return Cold()
        started = time.perf_counter()
        with _original(self._original.source, self._how) as fresh:
            fresh.prepare(inputs, threads=self._how.threads, **self._options)(1)
            return Cold(time.perf_counter() - started, fresh.peak_memory())


@contextmanager
def opened(source: Any, how: How, **options: Any) -> Iterator[FrameworkVariant]:
    """The source, open until the block ends. `weights` are for a factory and pass by everything else."""
    found = recognise(source, python=how.python, trust=how.trust)
    if how.weights is not None and found.form in ("factory", "module"):
        found = recognise(source, weights=how.weights, python=how.python, trust=how.trust)
    with _threads_kept(), _original(found, how) as original:
        yield FrameworkVariant(original, how, options)


def _original(source: Source, how: How) -> Original:
    return Original(source, timeout=how.timeout, environment=environment(how.threads))


@contextmanager
def _threads_kept() -> Iterator[None]:
    """A live module is measured in this process, whose own number of threads comes back afterwards."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(before)


def _signature(description: dict[str, Any]) -> Signature | None:
    inputs = description.get("inputs") or ()
    if not inputs or any(item.get("shape") is None for item in inputs):
        return None
    return Signature(
        tuple(TensorSpec(item["name"], item.get("dtype") or "float32", tuple(item["shape"])) for item in inputs)
    )


def _size(source: Source) -> int | None:
    """The bytes of the model's file or of the weights that a factory was given; None for what has no file of its own."""
    if source.form == "factory":
        return None if source.weights is None else file_bytes(source.weights)
    return None if source.path is None or source.staged else file_bytes(source.path)
