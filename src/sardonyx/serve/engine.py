"""Models that are loaded: found by name and version, run through their queues, and given back to the system on unload."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import time
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings
from sardonyx.serve import repository
from sardonyx.serve.batch import Batcher, Work
from sardonyx.serve.join import Join, Shapes
from sardonyx.serve.options import Options
from sardonyx.serve.policy import Policy, measure, must_not_change
from sardonyx.serve.refusal import BAD, NOT_FOUND, UNAVAILABLE, Refusal
from sardonyx.serve.repository import Entry
from sardonyx.serve.statistics import Statistics
from sardonyx.serve.terms import Terms, sizes_of
from sardonyx.serve.traces import Traces, open_traces
from sardonyx.signature import Array

PLATFORM = "onnxruntime_onnx"
_log = logging.getLogger(__name__)
# Their number of turns hangs on the values, so a quick answer at warm-up says nothing about the next.
_LOOPS = ("Loop", "Scan")
_RECENT = 8


class Served:
    """One version of one model, loaded and measured."""

    def __init__(self, entry: Entry, options: Options, traces: Traces | None = None) -> None:
        """Reads, checks, loads and warms the model. Takes its time: call it in a thread."""
        self.name, self.version, self.path = entry.name, entry.version, entry.path
        model = Model.load(entry.path)
        self.signature = model.signature
        self.terms = Terms(self.signature, elements=options.limits.elements)
        self.join = Join(self.signature, options.batching.pad)
        self.statistics = Statistics()
        self._traces = traces
        self._names = self.signature.input_names
        # A thread that waits busily would burn the CPU that the next request needs.
        settings = Settings(provider=options.provider, threads=options.threads_each, spinning=False).filled_from(model)
        self._session = Session(entry.path, settings, signature=self.signature)
        self.policy = self._measured(model, options)
        self._batcher: Batcher | None = None
        self._recent: deque[list[Array]] | None = None if options.promote_tolerance is None else deque(maxlen=_RECENT)

    def open(self, options: Options) -> Served:
        """Starts the queue, on the event loop that will serve."""
        self._batcher = Batcher(
            self.run,
            self.policy,
            options.batching,
            self.statistics,
            join=self.join,
            instances=options.instances,
        )
        return self

    def run(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        """The outputs for inputs in the order of the signature."""
        return self._session.run_some(outputs, dict(zip(self._names, inputs, strict=True)))

    def submit(self, work: Work) -> None:
        assert self._batcher is not None, "opened before it is found"
        if self._recent is not None:
            self._recent.append(work.inputs)
        if self._traces is not None:
            self._traces.follow(work, self.name, self.version)
        self._batcher.submit(work)

    def key(self, outputs: tuple[str, ...], shapes: Shapes, rows: int) -> Hashable:
        """What a request has in common with those it may share a run with; None for one that runs alone."""
        return self.join.key(outputs, shapes) if rows else None

    def recent(self) -> list[list[Array]]:
        """The inputs of the latest requests, for a model that is to take this one's place."""
        return list(self._recent or ())

    @property
    def waiting(self) -> int:
        return self._batcher.waiting if self._batcher else 0

    async def close(self) -> None:
        """Answers what is queued and lets the model go."""
        if self._batcher is not None:
            await self._batcher.close()
        del self._session

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Name, platform, inputs and outputs, as the protocol's metadata answer holds them."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": PLATFORM,
            "inputs": self.terms.metadata(self.signature.inputs),
            "outputs": self.terms.metadata(self.signature.outputs),
        }

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model in the words of Triton's configuration, which its clients and load generators ask for."""

        def tensors(specs: Iterable[Any]) -> list[dict[str, Any]]:
            return [
                {
                    "name": spec.name,
                    "data_type": f"TYPE_{self.terms.datatypes[spec.name].replace('BYTES', 'STRING')}",
                    "dims": sizes_of(spec.shape),
                }
                for spec in specs
            ]

        return {
            "name": self.name,
            "platform": PLATFORM,
            "backend": "onnxruntime",
            "max_batch_size": 0,  # shapes are written with their batch, as the model has them
            "input": tensors(self.signature.inputs),
            "output": tensors(self.signature.outputs),
        }

    def _measured(self, model: Model, options: Options) -> Policy:
        loops = any(node.op_type in _LOOPS for node in model.ir.graph.all_nodes())
        shapes = [spec.shape for spec in self.signature.inputs]
        fixed = all(shape is not None and all(isinstance(size, int) for size in shape[1:]) for shape in shapes)
        cpu = options.provider == "cpu" and options.instances == 1
        if self.join.pads:
            must_not_change(self.run, self.signature, self.join, options.batching.pad)
        own_thread = options.provider == "cpu" and options.threads_each == 1
        return measure(
            self.run, self.signature, self.terms, most=options.batching.most, quick=fixed and not loops and cpu,
            clock=time.thread_time if own_thread else time.perf_counter,
        )  # fmt: skip


class Models:
    """The models of a server by name and version."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._traces = open_traces() if options.traces else None
        self.failures: dict[tuple[str, str], str] = {}
        self._served: dict[str, dict[str, Served]] = {}
        self._changing = asyncio.Lock()
        self.stopping = False
        self.generation = 0  # grows with every change, for those who keep what they found

    async def load_all(self) -> None:
        """Loads everything that the source holds. One bad model of a repository is refused, and the others are served."""
        entries = repository.find(self.options.source)
        errors: list[SardonyxError] = []
        for entry in entries:
            try:
                await self._load(entry)
            except SardonyxError as error:
                errors.append(error)
        if len(errors) == len(entries):
            raise errors[0]
        for (name, version), why in self.failures.items():
            _log.warning("refused model %s version %s: %s", name, version, why)

    async def load(self, name: str) -> None:
        """Loads the versions of a model that lie in the source now, and lets go of those that do not.

        The newest must stand up to the one it replaces; if it does not, everything stays as it is.
        """
        from sardonyx.serve.promote import must_be_good

        async with self._changing:
            entries = repository.named(self.options.source, name)
            if not entries:
                raise Refusal(NOT_FOUND, f"the repository has no model {name}")
            try:
                fresh = {entry.version: await self._made(entry) for entry in entries}
                before = self.find(name) if name in self._served else None
                newest = fresh[entries[-1].version]
                await asyncio.to_thread(must_be_good, newest, before, self.options.promote_tolerance)
            except SardonyxError as error:
                _log.warning("refused model %s: %s", name, error.message)
                raise Refusal(BAD, f"model {name}: {error.message}") from error
            old = self._served.get(name, {})
            self._served[name] = {version: served.open(self.options) for version, served in fresh.items()}
            self.generation += 1
            await _let_go(old.values())

    async def unload(self, name: str) -> None:
        """Answers what is queued for the model, and gives its memory back."""
        async with self._changing:
            if name not in self._served:
                raise Refusal(NOT_FOUND, f"no model {name} is loaded")
            self.generation += 1
            await _let_go(self._served.pop(name).values())

    async def close(self) -> None:
        self.stopping = True
        await _let_go(self.all())
        self._served = {}
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)

    def find(self, name: str, version: str | None = None) -> Served:
        """The model, in its newest version unless one is named, or a refusal."""
        versions = self._served.get(name)
        if not versions:
            raise Refusal(NOT_FOUND, f"no model {name} is loaded here")
        if version is None:
            return next(reversed(versions.values()))
        if version not in versions:
            raise Refusal(NOT_FOUND, f"model {name} has no version {version}; it has {', '.join(versions)}")
        return versions[version]

    def only(self) -> Served:
        """The one model of the server, or a refusal where there are several."""
        if len(self._served) != 1:
            raise Refusal(NOT_FOUND, f"name a model: {', '.join(self._served) or 'none is loaded'}")
        return self.find(next(iter(self._served)))

    def all(self) -> list[Served]:
        return [served for versions in self._served.values() for served in versions.values()]

    def versions(self, name: str) -> list[str]:
        return list(self._served.get(name, ()))

    def index(self) -> list[dict[str, str]]:
        """What the repository holds, and whether each is ready."""
        loaded = {(served.name, served.version) for served in self.all()}
        rows = {(entry.name, entry.version) for entry in repository.find(self.options.source)} | loaded
        return [
            {"name": name, "version": version, "state": "READY", "reason": ""}
            if (name, version) in loaded
            else {
                "name": name, "version": version, "state": "UNAVAILABLE",
                "reason": self.failures.get((name, version), "unloaded"),
            }
            for name, version in sorted(rows)
        ]  # fmt: skip

    def ready(self) -> None:
        """Raises a refusal while the server is not ready."""
        if self.stopping:
            raise Refusal(UNAVAILABLE, "the server is stopping", retry_after=1)

    async def _load(self, entry: Entry) -> None:
        served = await self._made(entry)
        versions = self._served.setdefault(entry.name, {})
        versions[entry.version] = served.open(self.options)
        self.generation += 1

    async def _made(self, entry: Entry) -> Served:
        try:
            served = await asyncio.to_thread(Served, entry, self.options, self._traces)
        except SardonyxError as error:
            self.failures[entry.name, entry.version] = error.message
            raise
        self.failures.pop((entry.name, entry.version), None)
        return served


async def _let_go(models: Iterable[Served]) -> None:
    models = list(models)
    for served in models:
        await served.close()
    if models:
        gc.collect()
        _trim()


def _trim() -> None:
    """Gives freed memory back to the system, where its C library knows how."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
